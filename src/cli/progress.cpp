#include "cli/progress.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace ei::cli {

namespace {
constexpr double kBarIntervalSeconds = 0.1;
constexpr double kLineIntervalSeconds = 3.0;
constexpr int64_t kMostCells = 32;
constexpr int64_t kFewestCells = 8;

std::string rate_text(int64_t done, int64_t total, double elapsed_s) {
  if (elapsed_s <= 0 || done <= 0) return "";
  const double rate = static_cast<double>(done) / elapsed_s;
  return str_format(", %.0f tokens/s, %s left", rate, format_seconds(static_cast<double>(total - done) / rate).c_str());
}
}  // namespace

std::string bar_text(const std::string& label, int64_t done, int64_t total, double elapsed_s, int64_t columns) {
  const std::string percent = str_format(" %3lld%%", static_cast<long long>(100 * done / total));
  std::string rate = rate_text(done, total, elapsed_s);
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

void Progress::update(int64_t done, int64_t total, double elapsed_s) {
  const double now = now_s();
  const double interval = console_.stderr_is_terminal() ? kBarIntervalSeconds : kLineIntervalSeconds;
  // A line about the end would only repeat what the timings say.
  const bool worth_showing = console_.stderr_is_terminal() || done < total;
  if (total <= 0 || now - shown_s_ < interval || !worth_showing) return;
  shown_s_ = now;
  if (console_.stderr_is_terminal()) {
    draw_bar(done, total, elapsed_s);
  } else {
    print_line(done, total, elapsed_s);
  }
}

void Progress::draw_bar(int64_t done, int64_t total, double elapsed_s) {
  console_.status("\r" + bar_text(label_, done, total, elapsed_s, terminal_columns()) + "\033[K");
  bar_drawn_ = true;
}

void Progress::print_line(int64_t done, int64_t total, double elapsed_s) {
  console_.note(str_format("%s: %lld of %lld tokens (%lld%%)", label_.c_str(), static_cast<long long>(done),
                           static_cast<long long>(total), static_cast<long long>(100 * done / total)) +
                rate_text(done, total, elapsed_s));
}

void Progress::finish() {
  if (bar_drawn_) console_.status("\r\033[K");
  bar_drawn_ = false;
}

}  // namespace ei::cli
