#include "eval/run/bootstrap.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace ei::eval {
namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

Interval bootstrap_mean(const std::vector<std::vector<double>>& groups, uint64_t seed, int draws) {
  std::vector<const std::vector<double>*> filled;
  for (const std::vector<double>& group : groups)
    if (!group.empty()) filled.push_back(&group);
  if (filled.empty()) return {};
  const auto count = static_cast<double>(filled.size());
  Interval interval;
  for (const std::vector<double>* group : filled) interval.mean += mean_of(*group) / count;
  Random random(seed);
  std::vector<double> means;
  for (int draw = 0; draw < draws; ++draw) {
    double mean = 0;
    for (const std::vector<double>* group : filled) {
      double sum = 0;
      for (size_t i = 0; i < group->size(); ++i)
        sum += (*group)[static_cast<size_t>(random.below(static_cast<int64_t>(group->size())))];
      mean += sum / static_cast<double>(group->size()) / count;
    }
    means.push_back(mean);
  }
  std::sort(means.begin(), means.end());
  const auto at = [&](double share) {
    return means[static_cast<size_t>(share * static_cast<double>(means.size() - 1))];
  };
  interval.low = at(0.025);
  interval.high = at(0.975);
  return interval;
}

}  // namespace ei::eval
