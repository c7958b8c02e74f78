// How far a long prompt has come: a bar on a terminal, a line every few seconds elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/console.h"
#include "engine/session.h"

namespace ei::cli {

// "12 s", "40 s", "3 min": no more digits than can be known.
std::string about_seconds(double seconds);

struct BarState {
  int64_t done = 0;  // tokens
  int64_t total = 0;
  double elapsed_s = 0;
  double left_s = 0;
};
// The bar as text, shorter than `columns`, so that a terminal so wide does not break it into two lines: what does not
// fit is left out, the rate first, then the bar itself.
std::string bar_text(const std::string& label, const BarState& state, int64_t columns);

// Seconds that are left of a prompt: attention's by the query-key pairs to come, the rest's by the tokens. Pairs are
// counted and not timed, so how they grow (a d + b d^2, from where half of the text had been) has no noise.
class PromptClock {
 public:
  double left_s(const PrefillProgress& now);

 private:
  struct Mark {
    double done;
    double pairs;
  };
  double pairs_left(double done, double total, double pairs) const;

  std::vector<Mark> marks_;  // behind whole chunks
  double left_s_ = 0;        // at the last one
  double elapsed_s_ = 0;
};

// The same of several rounds that cost alike, each of `round` tokens: what whole ones took tells most.
class RoundsClock {
 public:
  double left_s(int64_t done, int64_t total, int64_t round, double elapsed_s);

 private:
  int64_t rounds_ = 0;   // that are over
  double rounds_s_ = 0;  // and what they took
};

class Progress {
 public:
  Progress(const Console& console, std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const PrefillProgress& state);
  // The same where somebody knows better how much is left: several prompts of unequal length.
  void update(const BarState& state);
  // The same of several rounds of `round` tokens each.
  void update_rounds(int64_t done, int64_t total, int64_t round, double elapsed_s);
  // Removes the bar, so that an answer starts on a clean line.
  void finish();

 private:
  void draw_bar(const BarState& state);
  void print_line(const BarState& state);

  const Console& console_;
  const std::string label_;
  PromptClock clock_;
  RoundsClock rounds_clock_;
  double shown_s_ = 0;  // when something was last shown
  bool bar_drawn_ = false;
};

}  // namespace ei::cli
