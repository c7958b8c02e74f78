#include "policy/block_select.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/top_indices.h"

namespace ei::policy {

bool is_dense(const PrefillOptions& options, const ChunkProfile& profile, int32_t i) {
  return (profile.resumed && i == 0) || is_dense_segment(options, profile.first_segment + i, profile.prompt_tokens);
}

void lay_out_plan(const PrefillOptions& options, const ChunkProfile& profile, std::span<const int32_t> counts,
                  BlockPlan& plan) {
  const size_t lists = static_cast<size_t>(profile.kv_heads) * static_cast<size_t>(profile.num_segments);
  EI_CHECK_EQ(counts.size(), lists);
  plan.grid = options.grid();
  plan.kv_heads = profile.kv_heads;
  plan.first_segment = profile.first_segment;
  plan.num_segments = profile.num_segments;
  plan.dense.clear();
  for (int32_t i = 0; i < profile.num_segments; ++i) plan.dense.push_back(is_dense(options, profile, i) ? 1 : 0);
  plan.offsets.assign(1, 0);
  for (size_t list = 0; list < lists; ++list) {
    const size_t i = list % static_cast<size_t>(profile.num_segments);
    const int64_t visible = (profile.first_segment + static_cast<int64_t>(i)) * plan.grid.blocks_per_segment();
    const int64_t count = plan.dense[i] != 0 ? 0 : std::clamp<int64_t>(counts[list], 0, visible);
    plan.offsets.push_back(plan.offsets.back() + count);
  }
  plan.blocks.resize(static_cast<size_t>(plan.offsets.back()));
}

void select_blocks(const PrefillOptions& options, const ChunkProfile& profile, std::span<const int32_t> counts,
                   BlockPlan& plan) {
  lay_out_plan(options, profile, counts, plan);
  std::vector<uint64_t> scratch;
  std::vector<int32_t> chosen;
  for (size_t list = 0; list + 1 < plan.offsets.size(); ++list) {
    const int64_t segment = profile.first_segment + static_cast<int64_t>(list) % profile.num_segments;
    const int64_t visible = segment * plan.grid.blocks_per_segment();
    EI_CHECK_LE(visible, profile.stride);
    const float* row = profile.values + static_cast<int64_t>(list) * profile.stride;
    chosen.clear();
    append_top_indices({row, static_cast<size_t>(visible)}, plan.offsets[list + 1] - plan.offsets[list], scratch,
                       chosen);
    std::copy(chosen.begin(), chosen.end(), plan.blocks.begin() + plan.offsets[list]);
  }
}

std::vector<int32_t> count_blocks(const PrefillOptions& options, const ChunkProfile& profile, EntropyBudget& budget,
                                  std::span<float> tokens) {
  std::vector<int32_t> counts(profile.entropy.size());
  budget.push(profile.first_segment, profile.num_segments, profile.entropy, tokens, counts);
  if (options.mode != SparseMode::kRagged) collapse_counts(counts, profile.kv_heads);
  return counts;
}

void plan_chunk(const PrefillOptions& options, const ChunkProfile& profile, EntropyBudget& budget, BlockPlan& plan) {
  select_blocks(options, profile, count_blocks(options, profile, budget), plan);
}

}  // namespace ei::policy
