#include "policy/kv/head_share.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/top_indices.h"

namespace ei::policy {
namespace {

int64_t size_of(const SlotScores& scores) { return static_cast<int64_t>(scores.size()); }

int64_t sum(std::span<const int64_t> counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// Hands out `left` more slots, evenly among the sets that have any left.
void give(std::vector<int64_t>& counts, std::span<const SlotScores> sets, int64_t left) {
  while (left > 0) {
    int64_t open = 0;
    for (size_t i = 0; i < counts.size(); ++i) open += counts[i] < size_of(sets[i]) ? 1 : 0;
    if (open == 0) return;
    const int64_t each = std::max<int64_t>(1, left / open);
    for (size_t i = 0; i < counts.size(); ++i) {
      const int64_t more = std::min({each, size_of(sets[i]) - counts[i], left});
      counts[i] += more;
      left -= more;
    }
  }
}

}  // namespace

std::vector<int64_t> top_counts(std::span<const SlotScores> sets, int64_t total) {
  std::vector<float> flat;
  for (const SlotScores& scores : sets) flat.insert(flat.end(), scores.begin(), scores.end());
  std::vector<uint64_t> scratch;
  std::vector<int32_t> best;
  append_top_indices(flat, total, scratch, best);
  std::vector<int64_t> counts;
  auto from = best.begin();
  int64_t end = 0;
  for (const SlotScores& scores : sets) {
    end += size_of(scores);
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
  std::vector<int64_t> counts = lift_to_floor(top_counts(sets, total), base, options.floor_share);
  for (size_t i = 0; i < counts.size(); ++i)
    counts[i] = std::min(std::max<int64_t>(counts[i], options.sinks), size_of(sets[i]));
  if (options.rounding == KvRounding::kReleased) return counts;
  for (int64_t over = sum(counts) - total; over > 0; --over) --*std::max_element(counts.begin(), counts.end());
  give(counts, sets, total - sum(counts));
  return counts;
}

}  // namespace ei::policy
