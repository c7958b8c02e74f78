// Scores of running sums on a GPU: the contract is attention_sums.h's. No CUDA header is needed to include this.
#pragma once

#include "base/result.h"
#include "kernels/window_scores/attention_sums.h"

namespace ei::kernels::cuda {

Status launch_sum_scores(const SumScoreParams& params, void* stream);

}  // namespace ei::kernels::cuda
