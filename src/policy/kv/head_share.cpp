#include "policy/kv/head_share.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/top_indices.h"
#include "policy/kv/layer_share.h"

namespace ei::policy {
namespace {

std::vector<int64_t> slots_of(std::span<const SlotScores> sets) {
  std::vector<int64_t> slots;
  for (const SlotScores& scores : sets) slots.push_back(static_cast<int64_t>(scores.size()));
  return slots;
}

}  // namespace

std::vector<int64_t> top_counts(std::span<const SlotScores> sets, int64_t total) {
  std::vector<float> flat;
  for (const SlotScores& scores : sets) flat.insert(flat.end(), scores.begin(), scores.end());
  std::vector<uint64_t> scratch;
  std::vector<int32_t> best;
  append_top_indices(flat, total, scratch, best);
  return counts_among(best, slots_of(sets));
}

std::vector<int64_t> counts_among(std::span<const int32_t> best, std::span<const int64_t> slots) {
  std::vector<int64_t> counts;
  auto from = best.begin();
  int64_t end = 0;
  for (const int64_t of_set : slots) {
    end += of_set;
    const auto to = std::lower_bound(from, best.end(), end);
    counts.push_back(to - from);
    from = to;
  }
  return counts;
}

std::vector<int64_t> lift_to_floor(std::span<const int64_t> wanted, int64_t base, double floor_share) {
  const double floor = std::floor(floor_share * static_cast<double>(base));
  std::vector<int64_t> counts;
  for (const int64_t slots : wanted)
    counts.push_back(static_cast<int64_t>(std::nearbyint((1 - floor_share) * static_cast<double>(slots) + floor)));
  return counts;
}

std::vector<int64_t> share_slots(const KvOptions& options, std::span<const SlotScores> sets, int64_t base) {
  const int64_t total = base * static_cast<int64_t>(sets.size());
  return share_slots(options, top_counts(sets, total), slots_of(sets), base);
}

std::vector<int64_t> share_slots(const KvOptions& options, std::span<const int64_t> best,
                                 std::span<const int64_t> slots, int64_t base) {
  if (options.sums_exactly()) {
    // What the authors round one by one, by largest remainder.
    const double floor = std::floor(options.floor_share * static_cast<double>(base));
    std::vector<double> shares;
    for (const int64_t one : best) shares.push_back((1 - options.floor_share) * static_cast<double>(one) + floor);
    const int64_t least = std::min<int64_t>(base, options.sinks);
    return apportion(shares, base * static_cast<int64_t>(slots.size()), least, slots);
  }
  std::vector<int64_t> counts = lift_to_floor(best, base, options.floor_share);
  for (size_t i = 0; i < counts.size(); ++i)
    counts[i] = std::min(std::max<int64_t>(counts[i], options.sinks), slots[i]);
  return counts;
}

std::vector<int64_t> share_by_weight(const KvOptions& options, std::span<const double> weights,
                                     std::span<const SlotScores> sets, int64_t base) {
  const auto floor = static_cast<int64_t>(options.floor_share * static_cast<double>(base));
  const int64_t least = std::min(base, std::max<int64_t>(floor, options.sinks));
  return apportion(weights, base * static_cast<int64_t>(sets.size()), least, slots_of(sets));
}

}  // namespace ei::policy
