// Counts of covering blocks on a GPU: the contract is block_scores.h's (BlockEntropyParams::covering).
#pragma once

#include "base/result.h"
#include "kernels/block_scores/block_scores.h"

namespace ei::kernels::cuda {

// Behind launch_block_entropy() of the same rows.
Status launch_covering(const BlockEntropyParams& params, void* stream);

}  // namespace ei::kernels::cuda
