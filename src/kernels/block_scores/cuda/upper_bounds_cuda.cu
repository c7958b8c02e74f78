#include "kernels/block_scores/cuda/upper_bounds.cuh"
#include "kernels/block_scores/cuda/upper_bounds_cuda.h"
#include "kernels/cuda/device_rows.h"

namespace ei::kernels::cuda {
namespace {

__global__ void __launch_bounds__(kBoundThreads) bounds_kernel(BlockScoreParams params, int64_t tiles) {
  bound_blocks(params, static_cast<int64_t>(blockIdx.x), tiles);
}

}  // namespace

Status launch_upper_bounds(const BlockScoreParams& params, void* stream) {
  const BlockRows& rows = params.rows;
  const int64_t tiles = bound_tiles(rows.num_segments > 0 ? rows.visible(rows.num_segments - 1) : 0);
  if (tiles == 0) return {};
  const auto blocks = static_cast<unsigned>(tiles * rows.kv_heads * rows.num_segments);
  bounds_kernel<<<blocks, kBoundThreads, 0, static_cast<cudaStream_t>(stream)>>>(params, tiles);
  return launched("block_scores");
}

}  // namespace ei::kernels::cuda
