// The profiler's operations on the CPU (contracts in kernels/block_scores/block_scores.h), shared out among workers.
// Plain loops over small vectors, which every compiler lowers to the machine's own; together they are a few percent of
// a prefill.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "base/workers.h"
#include "kernels/block_scores/block_scores.h"

namespace ei::kernels {

void block_extremes(const BlockExtremesParams& params, Worker worker);
void query_midrange(const QueryMidrangeParams& params, Worker worker);
void block_scores(const BlockScoreParams& params, WorkQueue& queue);
void block_entropy(const BlockEntropyParams& params, WorkQueue& queue);
void select_blocks(const SelectBlocksParams& params, WorkQueue& queue);
// Any kind, any block size, in floats: slow.
void row_scores_plain(const RowScoreParams& params, WorkQueue& queue);

// Peak scores, in four steps with a barrier between them: queries to 8 bits and what rows find in their own segment,
// the choice of rows, the peaks, the best of all rows. Blocks are a multiple of 8. `scratch` is shared, at least
// scratch_bytes(), 64-byte aligned.
struct PeakVariant {
  std::string_view name;
  std::string_view attention;  // the attention variant of about the same instructions
  bool (*usable)();
  size_t (*scratch_bytes)(const PeakScoreParams& params, int workers);
  void (*pack_keys)(const PackKeysParams& params, Worker worker);
  // One after the other, each with a queue of its own.
  std::array<void (*)(const PeakScoreParams& params, void* scratch, WorkQueue& queue, Worker worker), 5> steps;
  void (*merge)(const PeakScoreParams& params, void* scratch, Worker worker);
};
// Fastest first; the last is always usable.
const std::vector<const PeakVariant*>& peak_variants();
// The fastest usable variant. `isa` (from EI_CPU_ISA, may be empty) names an attention variant and caps the choice as
// in kernels/attention/attention.h.
const PeakVariant& choose_peak(std::string_view isa);

}  // namespace ei::kernels
