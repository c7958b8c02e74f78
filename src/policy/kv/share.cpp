#include "policy/kv/share.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/top_indices.h"

namespace ei::policy {
namespace {

int64_t size_of(const HeadScores& scores) { return static_cast<int64_t>(scores.size()); }

int64_t sum(std::span<const int64_t> counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// Hands out `left` more slots, evenly among the kv_heads that have any left.
void give(std::vector<int64_t>& counts, std::span<const HeadScores> heads, int64_t left) {
  while (left > 0) {
    int64_t open = 0;
    for (size_t h = 0; h < counts.size(); ++h) open += counts[h] < size_of(heads[h]) ? 1 : 0;
    if (open == 0) return;
    const int64_t each = std::max<int64_t>(1, left / open);
    for (size_t h = 0; h < counts.size(); ++h) {
      const int64_t more = std::min({each, size_of(heads[h]) - counts[h], left});
      counts[h] += more;
      left -= more;
    }
  }
}

}  // namespace

std::vector<int64_t> top_counts(std::span<const HeadScores> heads, int64_t total) {
  std::vector<float> flat;
  for (const HeadScores& scores : heads) flat.insert(flat.end(), scores.begin(), scores.end());
  std::vector<uint64_t> scratch;
  std::vector<int32_t> best;
  append_top_indices(flat, total, scratch, best);
  std::vector<int64_t> counts;
  auto from = best.begin();
  int64_t end = 0;
  for (const HeadScores& scores : heads) {
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

std::vector<int64_t> share_slots(std::span<const HeadScores> heads, int64_t base) {
  const int64_t total = base * static_cast<int64_t>(heads.size());
  const std::vector<int64_t> best = top_counts(heads, total);
  std::vector<int64_t> counts = lift_to_floor(best, base, kFloorShare);
  for (size_t h = 0; h < counts.size(); ++h) counts[h] = std::min(counts[h], size_of(heads[h]));
  for (int64_t over = sum(counts) - total; over > 0; --over) --*std::max_element(counts.begin(), counts.end());
  give(counts, heads, total - sum(counts));
  return counts;
}

std::vector<KeepList> keep_lists(const KvOptions& options, std::span<const GroupScores> heads,
                                 std::span<const int64_t> lengths) {
  EI_CHECK_EQ(heads.size(), lengths.size());
  std::vector<KeepList> keeps(heads.size());
  if (options.share == KvShare::kFlat) {
    for (size_t h = 0; h < heads.size(); ++h)
      if (lengths[h] > options.budget) keeps[h] = keep_list(options, heads[h], lengths[h]);
    return keeps;
  }
  std::vector<HeadScores> pooled;
  for (const GroupScores& scores : heads) pooled.push_back(pooled_scores(options, scores));
  const std::vector<int64_t> counts = share_slots(pooled, options.budget - options.window);
  for (size_t h = 0; h < heads.size(); ++h)
    if (counts[h] < heads[h].slots) keeps[h] = keep_best_and_recent(pooled[h], counts[h], lengths[h]);
  return keeps;
}

}  // namespace ei::policy
