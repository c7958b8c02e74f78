// Mid-range scores on a GPU: the contracts are block_scores.h's; pointers lead to device memory, or to host memory that
// the device writes.
#pragma once

#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/block_scores/block_scores.h"
#include "kernels/pages/cuda/device_pages.h"

namespace ei::kernels::cuda {

Status launch_block_extremes(const DevicePages& pages, const DeviceKvHead* heads, const BlockExtremesParams& params,
                             void* stream);
Status launch_query_midrange(const QueryMidrangeParams& params, void* stream);
Status launch_block_scores(const BlockScoreParams& params, void* stream);
Status launch_block_entropy(const BlockEntropyParams& params, void* stream);

}  // namespace ei::kernels::cuda
