#include "policy/block_select.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "policy/top_indices.h"

namespace ei::policy {

void select_blocks(const PrefillOptions& options, const ChunkProfile& profile, std::span<const int32_t> counts,
                   BlockPlan& plan) {
  const size_t lists = static_cast<size_t>(profile.kv_heads) * static_cast<size_t>(profile.num_segments);
  EI_CHECK_EQ(counts.size(), lists);
  plan.grid = options.grid();
  plan.kv_heads = profile.kv_heads;
  plan.first_segment = profile.first_segment;
  plan.num_segments = profile.num_segments;
  plan.dense.clear();
  for (int32_t i = 0; i < profile.num_segments; ++i)
    plan.dense.push_back(is_dense_segment(options, profile.first_segment + i, profile.prompt_tokens) ? 1 : 0);

  plan.blocks.clear();
  plan.offsets.assign(1, 0);
  std::vector<uint64_t> scratch;
  for (size_t list = 0; list < lists; ++list) {
    const size_t i = list % static_cast<size_t>(profile.num_segments);
    const int64_t segment = profile.first_segment + static_cast<int64_t>(i);
    const int64_t visible = segment * plan.grid.blocks_per_segment();
    if (plan.dense[i] == 0) {
      EI_CHECK_LE(visible, profile.stride);
      const float* row = profile.values + static_cast<int64_t>(list) * profile.stride;
      append_top_indices({row, static_cast<size_t>(visible)}, counts[list], scratch, plan.blocks);
    }
    plan.offsets.push_back(static_cast<int64_t>(plan.blocks.size()));
  }
}

void plan_chunk(const PrefillOptions& options, const ChunkProfile& profile, EntropyBudget& budget, BlockPlan& plan) {
  std::vector<int32_t> counts(profile.entropy.size());
  budget.push(profile.first_segment, profile.num_segments, profile.entropy, {}, counts);
  if (options.mode != SparseMode::kRagged) collapse_counts(counts, profile.kv_heads);
  select_blocks(options, profile, counts, plan);
}

}  // namespace ei::policy
