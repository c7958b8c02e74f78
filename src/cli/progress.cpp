#include "cli/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"

namespace ei::cli {

namespace {
constexpr double kBarIntervalSeconds = 0.1;
constexpr double kLineIntervalSeconds = 3.0;
constexpr int64_t kMostCells = 32;
constexpr int64_t kFewestCells = 8;

std::string rate_text(const BarState& state) {
  if (state.elapsed_s <= 0 || state.done <= 0) return "";
  const double rate = static_cast<double>(state.done) / state.elapsed_s;
  const std::string left = state.done < state.total ? ", about " + about_seconds(state.left_s) + " left" : "";
  return str_format(", %.0f tokens/s", rate) + left;
}
}  // namespace

std::string about_seconds(double seconds) {
  constexpr double kMinute = 60;
  const double step = seconds < 20 ? 1 : seconds < 1.5 * kMinute ? 5 : kMinute;
  const double rounded = std::max(1.0, std::round(seconds / step)) * step;
  return step < kMinute ? str_format("%.0f s", rounded) : str_format("%.0f min", rounded / kMinute);
}

double PromptClock::left_s(const PrefillProgress& now) {
  const auto done = static_cast<double>(now.done);
  const auto total = static_cast<double>(now.total);
  if (now.done <= 0) return 0;
  if (!marks_.empty() && (done < marks_.back().done || now.pairs < marks_.back().pairs))
    marks_.clear();  // another prompt
  const bool within_chunk = marks_.empty() ? now.pairs <= 0 : now.pairs <= marks_.back().pairs;
  if (within_chunk && marks_.empty()) return now.elapsed_s / done * (total - done);
  if (within_chunk) return std::max(0.0, left_s_ - (now.elapsed_s - elapsed_s_));
  const double rest_s = std::max(0.0, now.elapsed_s - now.attention_s);
  left_s_ = rest_s / done * (total - done) + now.attention_s / now.pairs * pairs_left(done, total, now.pairs);
  elapsed_s_ = now.elapsed_s;
  marks_.push_back({done, now.pairs});
  return left_s_;
}

// A parabola through the beginning, halfway and now: with what stood in the cache before, pairs grow by c d + b d^2.
double PromptClock::pairs_left(double done, double total, double pairs) const {
  const auto half = std::find_if(marks_.begin(), marks_.end(), [&](const Mark& mark) { return 2 * mark.done >= done; });
  const double left = total - done;
  if (half == marks_.end()) return pairs / done * left * (1 + total / done);  // a first chunk: b d^2
  const double late = (pairs - half->pairs) / (done - half->done);
  const double early = half->pairs / half->done;
  const double growth = std::max(0.0, (late - early) / done);
  return left * (late + growth * (done - half->done + left));
}

double RoundsClock::left_s(int64_t done, int64_t total, int64_t round, double elapsed_s) {
  if (done <= 0 || round <= 0) return 0;
  if (done / round > rounds_) {
    rounds_ = done / round;
    rounds_s_ = elapsed_s;
  }
  if (rounds_ == 0) return elapsed_s * static_cast<double>(total - done) / static_cast<double>(done);
  const double one_s = rounds_s_ / static_cast<double>(rounds_);
  const double rounds_left = static_cast<double>(total) / static_cast<double>(round) - static_cast<double>(rounds_);
  return std::max(0.0, one_s * rounds_left - (elapsed_s - rounds_s_));
}

std::string bar_text(const std::string& label, const BarState& state, int64_t columns) {
  const auto [done, total, elapsed_s, left_s] = state;
  const std::string percent = str_format(" %3lld%%", static_cast<long long>(100 * done / total));
  std::string rate = rate_text(state);
  const auto cells = [&] {
    const auto taken = static_cast<int64_t>(label.size() + percent.size() + rate.size() + 3);
    return std::min(kMostCells, columns - 1 - taken);
  };
  if (cells() < kFewestCells) rate.clear();
  if (cells() < kFewestCells)
    return (label + percent).substr(0, static_cast<size_t>(std::max<int64_t>(columns - 1, 0)));
  std::string bar = label + " [";
  const int64_t filled = cells() * done / total;
  for (int64_t cell = 0; cell < cells(); ++cell) bar += cell < filled ? '#' : '.';
  return bar + "]" + percent + rate;
}

Progress::Progress(const Console& console, std::string label)
    : console_(console), label_(std::move(label)), shown_s_(now_s()) {}

Progress::~Progress() { finish(); }

void Progress::update(const PrefillProgress& state) {
  update({.done = state.done, .total = state.total, .elapsed_s = state.elapsed_s, .left_s = clock_.left_s(state)});
}

void Progress::update_rounds(int64_t done, int64_t total, int64_t round, double elapsed_s) {
  const double left_s = rounds_clock_.left_s(done, total, round, elapsed_s);
  update({.done = done, .total = total, .elapsed_s = elapsed_s, .left_s = left_s});
}

void Progress::update(const BarState& state) {
  const double now = now_s();
  const double interval = console_.stderr_is_terminal() ? kBarIntervalSeconds : kLineIntervalSeconds;
  // A line about the end would only repeat what the timings say.
  const bool worth_showing = console_.stderr_is_terminal() || state.done < state.total;
  if (state.total <= 0 || now - shown_s_ < interval || !worth_showing) return;
  shown_s_ = now;
  if (console_.stderr_is_terminal()) {
    draw_bar(state);
  } else {
    print_line(state);
  }
}

void Progress::draw_bar(const BarState& state) {
  console_.status("\r" + bar_text(label_, state, terminal_columns()) + "\033[K");
  bar_drawn_ = true;
}

void Progress::print_line(const BarState& state) {
  console_.note(str_format("%s: %lld of %lld tokens (%lld%%)", label_.c_str(), static_cast<long long>(state.done),
                           static_cast<long long>(state.total),
                           static_cast<long long>(100 * state.done / state.total)) +
                rate_text(state));
}

void Progress::finish() {
  if (bar_drawn_) console_.status("\r\033[K");
  bar_drawn_ = false;
}

}  // namespace ei::cli
