// How many slots each kv_head of a layer keeps when they need not all keep the same number. Pure functions of arrays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/kv/recipe.h"

namespace ei::policy {

// The share of the flat budget that no kv_head goes below; the value AdaKV uses with grouped queries.
constexpr double kFloorShare = 0.2;

using HeadScores = std::vector<float>;  // pooled scores of one kv_head's slots outside the window

// How many of the `total` best slots of all kv_heads together belong to each. Among equals the lower kv_head first,
// then the lower slot.
std::vector<int64_t> top_counts(std::span<const HeadScores> heads, int64_t total);

// (1 - floor_share) of what each kv_head wants, on a floor of floor_share * base slots; halves to the even number, as
// AdaKV's authors round. The sum may miss heads * base by the rounding.
std::vector<int64_t> lift_to_floor(std::span<const int64_t> wanted, int64_t base, double floor_share);

// Shares out heads * base slots by where the best of them stand, on a floor. No kv_head gets more than it has, what it
// cannot use goes to the others, and the sum is heads * base unless there are fewer.
std::vector<int64_t> share_slots(std::span<const HeadScores> heads, int64_t base);

// The whole recipe for one layer: `heads` covers the slots outside the window of each kv_head (none when it holds no
// more than the window), `lengths` all its slots. An empty list: everything stays.
std::vector<KeepList> keep_lists(const KvOptions& options, std::span<const GroupScores> heads,
                                 std::span<const int64_t> lengths);

}  // namespace ei::policy
