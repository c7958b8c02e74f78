#include "kernels/block_scores/cuda/covering.cuh"
#include "kernels/block_scores/cuda/covering_cuda.h"
#include "kernels/cuda/device_rows.h"
#include "kernels/cuda/elements.cuh"

namespace ei::kernels::cuda {
namespace {

// A block of threads for each row. Probabilities that nobody keeps are made again, as they were for the entropy.
__global__ void __launch_bounds__(kCoverThreads) covering_kernel(BlockEntropyParams params) {
  __shared__ CoverShared shared;
  const BlockRows& rows = params.rows;
  const auto list = static_cast<int32_t>(blockIdx.x);
  const int32_t i = list % rows.num_segments;
  const int64_t begin = rows.offset(list / rows.num_segments, i);
  const int64_t size = rows.visible(i);
  const float* kept = params.probabilities == nullptr ? nullptr : params.probabilities + begin;
  float largest = 0;
  float total = 1;
  if (kept == nullptr) {
    largest = -INFINITY;
    for (int64_t j = threadIdx.x; j < size; j += kCoverThreads) largest = fmaxf(largest, params.scores[begin + j]);
    largest = block_max(largest);
    total = 0;
    for (int64_t j = threadIdx.x; j < size; j += kCoverThreads) total += expf(params.scores[begin + j] - largest);
    total = block_sum(total);
  }
  const int64_t count = count_covering(shared, size, params.cover, [&](int64_t j) {
    if (kept != nullptr) return kept[j];
    const float p = expf(params.scores[begin + j] - largest) / total;
    if (params.previous == nullptr) return p;
    return params.previous_share * params.previous[begin + j] + (1 - params.previous_share) * p;
  });
  if (threadIdx.x == 0) params.covering[list] = static_cast<float>(count);
}

}  // namespace

Status launch_covering(const BlockEntropyParams& params, void* stream) {
  const auto lists = static_cast<unsigned>(params.rows.kv_heads * params.rows.num_segments);
  if (lists == 0) return {};
  covering_kernel<<<lists, kCoverThreads, 0, static_cast<cudaStream_t>(stream)>>>(params);
  return launched("block_entropy");
}

}  // namespace ei::kernels::cuda
