// From scores of cached slots to the slots that survive: aggregate over heads, pool over slots, keep the best and the
// most recent. Pure functions of arrays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/block_plan.h"
#include "policy/kv/options.h"

namespace ei::policy {

using SlotScores = std::vector<float>;  // of the slots of one set outside the window

// Scores of one set's slots, one row for each head of it: [heads, stride], the first `slots` of each.
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
SlotScores pooled_scores(const KvOptions& options, const GroupScores& scores);

// The `count` best slots of scores (slots [0, scores.size())) and all behind them up to `length`. Ascending; lower slot
// first among equals.
KeepList keep_best_and_recent(std::span<const float> scores, int64_t count, int64_t length);

// First slots on which attention rests when it looks for nothing.
inline constexpr int32_t kSinkSlots = 4;

// Over how many slots scores spread: the exponential of their entropy, as shares of their sum. Sinks do not count
// (first_that_count()). 0 where there is nothing.
double spread_of(std::span<const float> scores, int64_t first);
int64_t first_that_count(const KvOptions& options);

// How many of `count` slots go to the best by their keys, the other ones to the best by attention, sinks among them.
// `spread` is that of the scores.
int64_t count_by_keys(const KvOptions& options, int64_t count, double spread);

// The same with the best by `keys` among those that were not best by `scores`: [at least scores.size()].
KeepList keep_best_of_both_and_recent(const KvOptions& options, std::span<const float> scores,
                                      std::span<const float> keys, int64_t count, int64_t length);

// What either keeps.
KeepList union_of(const KeepList& a, const KeepList& b);

}  // namespace ei::policy
