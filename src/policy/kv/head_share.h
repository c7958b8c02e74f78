// How many slots each set of a layer keeps when they need not all keep the same number. Pure functions of arrays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/kv/ranking.h"

namespace ei::policy {

// How many of the `total` best slots of all sets together belong to each. Among equals the lower set first, then the
// lower slot.
std::vector<int64_t> top_counts(std::span<const SlotScores> sets, int64_t total);

// The same of the `best` slots of all sets, ascending, counted through: slot s of a set stands behind all slots of the
// sets before it.
std::vector<int64_t> counts_among(std::span<const int32_t> best, std::span<const int64_t> slots);

// (1 - floor_share) of what each set wants, on a floor of floor_share * base slots; halves to the even number, as
// AdaKV's authors round. The sum may miss sets * base by the rounding.
std::vector<int64_t> lift_to_floor(std::span<const int64_t> wanted, int64_t base, double floor_share);

// AdaKV's rule: shares out sets * base slots by where the best of them stand, on a floor. No set gets more than it has.
// Rounded exactly, what it cannot use goes to the others, and the sum is sets * base unless there are fewer.
std::vector<int64_t> share_slots(const KvOptions& options, std::span<const SlotScores> sets, int64_t base);
// The same where it is known how many of the best each set has, of `slots` slots.
std::vector<int64_t> share_slots(const KvOptions& options, std::span<const int64_t> best,
                                 std::span<const int64_t> slots, int64_t base);

// The same in proportion to weights, one a set, on the same floor; by largest remainders.
std::vector<int64_t> share_by_weight(const KvOptions& options, std::span<const double> weights,
                                     std::span<const SlotScores> sets, int64_t base);

}  // namespace ei::policy
