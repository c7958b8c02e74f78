// From scores of cached slots to the slots that survive: aggregate over the group, pool over slots, keep the best and
// the most recent. Pure functions of arrays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "plan/block_plan.h"

namespace ei::policy {

enum class KvRule : uint8_t {
  kKeepAll,
  kLatent,  // wait for `gap` generated tokens, then keep what they and the last prompt tokens attend to
};
enum class Pooling : uint8_t { kAverage, kMax };
enum class GroupAggregate : uint8_t { kMean, kMax };
// How a layer's slots are shared out among its kv_heads (policy/kv/share.h).
enum class KvShare : uint8_t { kFlat, kAdaptive };
const char* kv_share_name(KvShare share);  // "flat", "adaptive"

struct KvOptions {
  KvRule rule = KvRule::kKeepAll;
  int32_t budget = 1024;           // slots per kv_head behind a compression, the window included
  KvShare share = KvShare::kFlat;  // other than flat: `budget` is the mean over the kv_heads of a layer
  int32_t gap = 16;                // generated tokens to wait for; -1: compress when the prompt has been read
  int32_t window = 32;             // W: recorded queries, and the most recent slots, which always stay
  int32_t repeat = 256;            // R: look again every R generated tokens; 0: once only
  Pooling pooling = Pooling::kAverage;
  int32_t kernel = 5;  // slots pooled together, odd
  GroupAggregate aggregate = GroupAggregate::kMean;
};
Status validate(const KvOptions& options);

// The last prompt queries to record, so that with `gap` generated ones they fill the window.
int32_t prompt_queries(const KvOptions& options);

// Scores of one kv_head's slots, one row for each query head of its group: [group, stride], the first `slots` of each.
struct GroupScores {
  const float* scores = nullptr;
  int64_t stride = 0;
  int32_t group = 1;
  int64_t slots = 0;
};
void aggregate_group(const GroupScores& scores, GroupAggregate aggregate, std::span<float> out);  // out: [slots]

// `kernel` neighbours centred on each slot. Average: what lies outside counts as 0 and still divides. Max: it is
// ignored.
void pool_scores(std::span<const float> scores, Pooling pooling, int32_t kernel, std::span<float> out);

// Aggregated and pooled as the options say: [slots].
std::vector<float> pooled_scores(const KvOptions& options, const GroupScores& scores);

// The `count` best slots of scores (slots [0, scores.size())) and all behind them up to `length`. Ascending; lower slot
// first among equals.
KeepList keep_best_and_recent(std::span<const float> scores, int64_t count, int64_t length);

// The whole recipe for one kv_head of `length` slots with a flat budget: `scores` covers its slots outside the window,
// length - window of them. A cache shorter than the budget keeps everything.
KeepList keep_list(const KvOptions& options, const GroupScores& scores, int64_t length);

}  // namespace ei::policy
