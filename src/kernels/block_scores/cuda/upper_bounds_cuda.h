// Upper bounds of blocks on a GPU: the contract is block_scores.h's (BlockScore::kUpperBound); pointers lead to device
// memory.
#pragma once

#include "base/result.h"
#include "kernels/block_scores/block_scores.h"

namespace ei::kernels::cuda {

Status launch_upper_bounds(const BlockScoreParams& params, void* stream);

}  // namespace ei::kernels::cuda
