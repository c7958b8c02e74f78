// Exposition: figures as the text that Prometheus reads (format 0.0.4).
#pragma once

#include <string>

#include "server/scheduler/histogram.h"

namespace ei::server {

class Exposition {
 public:
  // Of every figure until the next call: {} or model_name="…" with what Prometheus wants escaped.
  void set_label(const std::string& name, const std::string& value);
  void clear_labels() { labels_.clear(); }

  void counter(const char* name, const char* help, double value) { add(name, help, "counter", value); }
  void gauge(const char* name, const char* help, double value) { add(name, help, "gauge", value); }
  void histogram(const char* name, const char* help, const Histogram& values);

  const std::string& text() const { return text_; }

 private:
  void head(const char* name, const char* help, const char* type);
  void add(const char* name, const char* help, const char* type, double value);
  void sample(const std::string& name, const std::string& more, double value);

  std::string labels_{};  // "a=\"b\",c=\"d\""
  std::string text_{};
};

}  // namespace ei::server
