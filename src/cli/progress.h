// How far a long prompt has come: a bar on a terminal, a line every few seconds elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "cli/console.h"

namespace ei::cli {

// The bar as text, shorter than `columns`, so that a terminal so wide does not break it into two lines: what does not
// fit is left out, the rate first, then the bar itself.
std::string bar_text(const std::string& label, int64_t done, int64_t total, double elapsed_s, int64_t columns);

class Progress {
 public:
  Progress(const Console& console, std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int64_t done, int64_t total, double elapsed_s);
  // Removes the bar, so that an answer starts on a clean line.
  void finish();

 private:
  void draw_bar(int64_t done, int64_t total, double elapsed_s);
  void print_line(int64_t done, int64_t total, double elapsed_s);

  const Console& console_;
  const std::string label_;
  double shown_s_ = 0;  // when something was last shown
  bool bar_drawn_ = false;
};

}  // namespace ei::cli
