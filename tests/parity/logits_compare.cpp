#include "parity/logits_compare.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ei::testing {

namespace {

double log_sum_exp(std::span<const float> row) {
  const double top = static_cast<double>(*std::max_element(row.begin(), row.end()));
  double sum = 0;
  for (const float value : row) sum += std::exp(static_cast<double>(value) - top);
  return top + std::log(sum);
}

}  // namespace

LogitsGap compare_logits(std::span<const float> a, std::span<const float> b, int64_t vocab) {
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
    gap.relative = std::max(gap.relative, worst / largest);
    gap.kl_divergence = std::max(gap.kl_divergence, divergence);
    gap.mean_divergence += divergence;
    const auto ours_top = std::max_element(ours.begin(), ours.end()) - ours.begin();
    const auto theirs_top = std::max_element(theirs.begin(), theirs.end()) - theirs.begin();
    const auto lead =
        static_cast<double>(theirs[static_cast<size_t>(theirs_top)] - theirs[static_cast<size_t>(ours_top)]);
    if (ours_top != theirs_top && lead > 2 * worst) ++gap.top_differs;
  }
  gap.mean_divergence /= static_cast<double>(std::max<int64_t>(gap.rows, 1));
  return gap;
}

}  // namespace ei::testing
