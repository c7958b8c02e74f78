#include "policy/kv/recipe.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/top_indices.h"

namespace ei::policy {

const char* kv_share_name(KvShare share) { return share == KvShare::kFlat ? "flat" : "adaptive"; }

Status validate(const KvOptions& options) {
  if (options.window < 1) return make_error(ErrorKind::kUsage, "window must be positive: %d", options.window);
  if (options.budget <= options.window)
    return make_error(ErrorKind::kUsage, "KV budget must exceed the window, which always stays: %d <= %d",
                      options.budget, options.window);
  if (options.gap < -1) return make_error(ErrorKind::kUsage, "gap must be at least -1: %d", options.gap);
  if (options.repeat < 0) return make_error(ErrorKind::kUsage, "repeat must be at least 0: %d", options.repeat);
  if (options.kernel < 1 || options.kernel % 2 == 0)
    return make_error(ErrorKind::kUsage, "pooling kernel must be odd and positive: %d", options.kernel);
  return {};
}

int32_t prompt_queries(const KvOptions& options) {
  if (options.rule == KvRule::kKeepAll) return 0;
  return std::max(0, options.window - std::max(0, options.gap));
}

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

std::vector<float> pooled_scores(const KvOptions& options, const GroupScores& scores) {
  std::vector<float> group(static_cast<size_t>(scores.slots));
  std::vector<float> pooled(group.size());
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

KeepList keep_list(const KvOptions& options, const GroupScores& scores, int64_t length) {
  if (options.rule == KvRule::kKeepAll || length < options.budget) return keep_best_and_recent({}, 0, length);
  EI_CHECK_EQ(scores.slots, length - options.window);
  return keep_best_and_recent(pooled_scores(options, scores), options.budget - options.window, length);
}

}  // namespace ei::policy
