// From values and counts to a BlockPlan: every kv_head and segment reads the blocks it ranks highest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/block_plan.h"
#include "policy/prefill_budget.h"

namespace ei::policy {

// What the profiler knows about the segments [first_segment, first_segment + num_segments) of one layer.
struct ChunkProfile {
  int32_t kv_heads = 0;
  int32_t first_segment = 0;
  int32_t num_segments = 0;
  int64_t prompt_tokens = 0;  // the position where the prompt ends; decides which segment is the last
  bool resumed = false;       // the first segment was begun by an earlier prompt; what is left of it reads everything
  std::span<const float> entropy = {};  // [kv_heads, num_segments]
  // [kv_heads, num_segments, stride]: logits, or probabilities where ranks_on_probabilities(). Row (h, i) holds the
  // blocks before its segment, (first_segment + i) * blocks_per_segment of them.
  const float* values = nullptr;
  int64_t stride = 0;
};

// Everything of a plan but the blocks themselves: dense[i], and lists with room for counts[h, i] blocks, none where the
// segment is dense. Reads neither entropy nor values.
void lay_out_plan(const PrefillOptions& options, const ChunkProfile& profile, std::span<const int32_t> counts,
                  BlockPlan& plan);

// Lists of the top counts[h, i] blocks; a dense segment has an empty list. counts: [kv_heads, num_segments].
void select_blocks(const PrefillOptions& options, const ChunkProfile& profile, std::span<const int32_t> counts,
                   BlockPlan& plan);

// Does segment first_segment + i read everything?
bool is_dense(const PrefillOptions& options, const ChunkProfile& profile, int32_t i);

// Counts [kv_heads, num_segments] of one chunk of one layer. `budget` is the state of this layer. tokens, the budgets
// themselves, may be empty.
std::vector<int32_t> count_blocks(const PrefillOptions& options, const ChunkProfile& profile, EntropyBudget& budget,
                                  std::span<float> tokens = {});

// Budgets, then selection.
void plan_chunk(const PrefillOptions& options, const ChunkProfile& profile, EntropyBudget& budget, BlockPlan& plan);

}  // namespace ei::policy
