// The profiler's operations on the CPU (contracts in kernels/profile.h), shared out among workers. Plain loops over
// small vectors, which every compiler lowers to the machine's own; together they are a few percent of a prefill.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/workers.h"
#include "kernels/profile.h"

namespace ei::kernels {

void block_extremes(const BlockExtremesParams& params, Worker worker);
void query_midrange(const QueryMidrangeParams& params, Worker worker);
void block_scores(const BlockScoreParams& params, WorkQueue& queue);
void block_entropy(const BlockEntropyParams& params, WorkQueue& queue);
void select_blocks(const SelectBlocksParams& params, WorkQueue& queue);
// Any kind, any block size, in floats: slow.
void row_scores_plain(const RowScoreParams& params, WorkQueue& queue);

// RowScore::kGroupPeak with blocks that are a multiple of 8, in three steps with a barrier between them: keys and
// queries to 8 bits, peaks of row tiles, the best of all tiles. `scratch` is shared, at least scratch_bytes(), 64-byte
// aligned.
struct PeakVariant {
  std::string_view name;
  bool (*usable)();
  size_t (*scratch_bytes)(const RowScoreParams& params, int workers);
  void (*pack)(const RowScoreParams& params, void* scratch, Worker worker);
  void (*score)(const RowScoreParams& params, void* scratch, WorkQueue& queue, Worker worker);
  void (*merge)(const RowScoreParams& params, void* scratch, Worker worker);
};
// Fastest first; the last is always usable.
const std::vector<const PeakVariant*>& peak_variants();
const PeakVariant& choose_peak(std::string_view isa);

}  // namespace ei::kernels
