#include "policy/kv/ranking.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/top_indices.h"

namespace ei::policy {

void aggregate_group(const GroupScores& scores, GroupAggregate aggregate, std::span<float> out) {
  EI_CHECK_EQ(static_cast<int64_t>(out.size()), scores.slots);
  for (int64_t slot = 0; slot < scores.slots; ++slot) {
    float value = scores.scores[slot];
    for (int32_t g = 1; g < scores.group; ++g) {
      const float other = scores.scores[g * scores.stride + slot];
      value = aggregate == GroupAggregate::kMean ? value + other : std::max(value, other);
    }
    if (aggregate == GroupAggregate::kMean) value /= static_cast<float>(scores.group);
    out[static_cast<size_t>(slot)] = value;
  }
}

void pool_scores(std::span<const float> scores, Pooling pooling, int32_t kernel, std::span<float> out) {
  EI_CHECK_EQ(out.size(), scores.size());
  const int64_t size = static_cast<int64_t>(scores.size());
  for (int64_t slot = 0; slot < size; ++slot) {
    const int64_t begin = std::max<int64_t>(0, slot - kernel / 2);
    const int64_t end = std::min<int64_t>(size, slot + kernel / 2 + 1);
    const auto near = scores.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    out[static_cast<size_t>(slot)] = pooling == Pooling::kMax
                                         ? *std::max_element(near.begin(), near.end())
                                         : std::accumulate(near.begin(), near.end(), 0.0f) / static_cast<float>(kernel);
  }
}

SlotScores pooled_scores(const KvOptions& options, const GroupScores& scores) {
  SlotScores group(static_cast<size_t>(scores.slots));
  SlotScores pooled(group.size());
  aggregate_group(scores, options.aggregate, group);
  pool_scores(group, options.pooling, options.kernel, pooled);
  return pooled;
}

KeepList keep_best_and_recent(std::span<const float> scores, int64_t count, int64_t length) {
  EI_CHECK_LE(static_cast<int64_t>(scores.size()), length);
  KeepList keep;
  std::vector<uint64_t> scratch;
  append_top_indices(scores, count, scratch, keep);
  for (int64_t slot = static_cast<int64_t>(scores.size()); slot < length; ++slot)
    keep.push_back(static_cast<int32_t>(slot));
  return keep;
}

double spread_of(std::span<const float> scores, int64_t first) {
  double sum = 0;
  double weighted = 0;
  for (const float score : scores.subspan(std::min(scores.size(), static_cast<size_t>(first)))) {
    if (!(score > 0)) continue;
    sum += static_cast<double>(score);
    weighted += static_cast<double>(score) * std::log(static_cast<double>(score));
  }
  return sum > 0 ? sum * std::exp(-weighted / sum) : 0;
}

int64_t first_that_count(const KvOptions& options) { return std::max(options.sinks, kSinkSlots); }

int64_t count_by_keys(const KvOptions& options, int64_t count, double spread) {
  const int64_t share = std::llround(options.key_share * static_cast<double>(count));
  const auto attended =
      static_cast<int64_t>(std::ceil(std::min(options.attended * spread, static_cast<double>(count))));
  return std::min(share, std::max<int64_t>(0, count - std::max<int64_t>(options.sinks, attended)));
}

KeepList keep_best_of_both_and_recent(const KvOptions& options, std::span<const float> scores,
                                      std::span<const float> keys, int64_t count, int64_t length) {
  const double spread = options.attended > 0 ? spread_of(scores, first_that_count(options)) : 0;
  const int64_t by_keys = count_by_keys(options, count, spread);
  std::vector<uint64_t> scratch;
  KeepList best;
  append_top_indices(scores, count - by_keys, scratch, best);
  std::vector<float> others(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(scores.size()));
  for (const int32_t slot : best) others[static_cast<size_t>(slot)] = std::numeric_limits<float>::quiet_NaN();
  return union_of(best, keep_best_and_recent(others, by_keys, length));
}

KeepList union_of(const KeepList& a, const KeepList& b) {
  KeepList both;
  both.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

}  // namespace ei::policy
