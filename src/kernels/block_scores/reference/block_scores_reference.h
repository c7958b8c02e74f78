// The reference of block_scores.h: slow, obvious, sums in double. The oracle of every faster twin.
#pragma once

#include "kernels/block_scores/block_scores.h"

namespace ei::kernels {

void reference_block_extremes(const BlockExtremesParams& params);
void reference_query_midrange(const QueryMidrangeParams& params);
void reference_block_scores(const BlockScoreParams& params);
void reference_block_entropy(const BlockEntropyParams& params);
void reference_row_scores(const RowScoreParams& params);
// From kv, without rounding; reads no panels.
void reference_peak_scores(const PeakScoreParams& params);
void reference_select_blocks(const SelectBlocksParams& params);

}  // namespace ei::kernels
