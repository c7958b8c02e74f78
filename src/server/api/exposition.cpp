#include "server/api/exposition.h"

#include "base/result.h"

namespace ei::server {

namespace {
std::string label_text(const std::string& name, const std::string& value) {
  std::string text = name + "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text + "\"";
}
}  // namespace

void Exposition::set_label(const std::string& name, const std::string& value) {
  labels_ += (labels_.empty() ? "" : ",") + label_text(name, value);
}

void Exposition::head(const char* name, const char* help, const char* type) {
  text_ += str_format("# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void Exposition::sample(const std::string& name, const std::string& more, double value) {
  const std::string both = labels_ + (labels_.empty() || more.empty() ? "" : ",") + more;
  text_ += name + (both.empty() ? "" : "{" + both + "}") + str_format(" %.17g\n", value);
}

void Exposition::add(const char* name, const char* help, const char* type, double value) {
  head(name, help, type);
  sample(name, "", value);
}

void Exposition::histogram(const char* name, const char* help, const Histogram& values) {
  head(name, help, "histogram");
  const std::string bucket = std::string(name) + "_bucket";
  int64_t below = 0;
  for (size_t i = 0; i < values.counts().size(); ++i) {
    below += values.counts()[i];
    const std::string bound = i < values.bounds().size() ? str_format("%g", values.bounds()[i]) : "+Inf";
    sample(bucket, label_text("le", bound), static_cast<double>(below));
  }
  sample(std::string(name) + "_sum", "", values.sum());
  sample(std::string(name) + "_count", "", static_cast<double>(below));
}

}  // namespace ei::server
