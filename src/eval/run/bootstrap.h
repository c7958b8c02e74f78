// How sure a mean of few scores is: percentile bootstrap, seeded.
#pragma once

#include <cstdint>
#include <vector>

namespace ei::eval {

struct Interval {
  double mean = 0;
  double low = 0;  // 95 %
  double high = 0;
};

// Of the mean of the groups' means: items are drawn anew, with replacement, within each group. One group: a plain mean.
// Empty groups do not count.
Interval bootstrap_mean(const std::vector<std::vector<double>>& groups, uint64_t seed = 1, int draws = 2000);

}  // namespace ei::eval
