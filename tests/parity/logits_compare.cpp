#include "parity/logits_compare.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ei::testing {

namespace {

constexpr double kClose = 1e-3;

double log_sum_exp(std::span<const float> row) {
  const double top = static_cast<double>(*std::max_element(row.begin(), row.end()));
  double sum = 0;
  for (const float value : row) sum += std::exp(static_cast<double>(value) - top);
  return top + std::log(sum);
}

// The best and the distance to the second.
struct Top {
  size_t token = 0;
  double lead = 0;
};
Top top_of(std::span<const float> row) {
  Top top;
  for (size_t i = 1; i < row.size(); ++i)
    if (!(row[i] <= row[top.token])) top.token = i;
  top.lead = static_cast<double>(INFINITY);
  for (size_t i = 0; i < row.size(); ++i)
    if (i != top.token) top.lead = std::min(top.lead, static_cast<double>(row[top.token] - row[i]));
  return top;
}

}  // namespace

double spread_of(std::span<const float> row) {
  double sum = 0;
  double squares = 0;
  for (const float value : row) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto count = static_cast<double>(row.size());
  return std::sqrt(std::max(0.0, squares / count - sum / count * sum / count));
}

LogitsGap compare_logits(std::span<const float> a, std::span<const float> b, int64_t vocab, double noise) {
  LogitsGap gap;
  const auto width = static_cast<size_t>(vocab);
  for (size_t first = 0; first < b.size(); first += width, ++gap.rows) {
    const auto ours = a.subspan(first, width);
    const auto theirs = b.subspan(first, width);
    const double ours_total = log_sum_exp(ours);
    const double theirs_total = log_sum_exp(theirs);
    double worst = 0;
    double largest = 0;
    double divergence = 0;
    for (size_t i = 0; i < width; ++i) {
      const auto x = static_cast<double>(ours[i]);
      const auto y = static_cast<double>(theirs[i]);
      worst = std::max(worst, std::isfinite(x) ? std::fabs(x - y) : 1e30);
      largest = std::max(largest, std::fabs(y));
      divergence += std::exp(y - theirs_total) * ((y - theirs_total) - (x - ours_total));
    }
    const double spread = spread_of(theirs);
    gap.relative = std::max(gap.relative, worst / largest);
    gap.spread_error = std::max(gap.spread_error, worst / spread);
    gap.kl_divergence = std::isnan(divergence) ? INFINITY : std::max(gap.kl_divergence, divergence);
    gap.mean_divergence += divergence;
    if (!(divergence <= kClose)) ++gap.beyond;
    const Top top = top_of(theirs);
    if (top.lead <= noise * spread) continue;
    ++gap.judged;
    if (top_of(ours).token != top.token) ++gap.top_differs;
  }
  gap.mean_divergence /= static_cast<double>(std::max<int64_t>(gap.rows, 1));
  return gap;
}

}  // namespace ei::testing
