// Upper bounds of the products of queries with the keys of blocks, as a kernel makes them.
#pragma once

#include "kernels/block_scores/block_scores.h"
#include "kernels/cuda/elements.cuh"

namespace ei::kernels::cuda {

inline constexpr int kBoundThreads = 256;
inline constexpr int kBoundWarps = kBoundThreads / 32;  // each has a block

// Blocks of threads for a list that sees so many blocks.
constexpr int64_t bound_tiles(int64_t most) { return (most + kBoundWarps - 1) / kBoundWarps; }

// The work of block `index` of the lists' tiles, `tiles` for each list. kBoundThreads threads take part.
__device__ inline void bound_blocks(const BlockScoreParams& params, int64_t index, int64_t tiles) {
  const BlockRows& rows = params.rows;
  const auto list = static_cast<int32_t>(index / tiles);
  const int32_t h = list / rows.num_segments;
  const int32_t i = list % rows.num_segments;
  const int64_t block = index % tiles * kBoundWarps + threadIdx.x / 32;
  if (block >= rows.visible(i)) return;  // all lanes of a warp
  const int32_t group = params.num_heads / rows.kv_heads;
  const float* q = params.queries + (int64_t{i} * params.num_heads + int64_t{h} * group) * params.head_dim;
  const int64_t begin = h * params.keys.head_stride + block * params.keys.block_stride;
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  float sum = 0;
  for (int32_t g = 0; g < group; ++g) {
    float bound = 0;
    for (int32_t d = lane; d < params.head_dim; d += 32) {
      const float value = q[g * params.head_dim + d];
      bound += fmaxf(value * element_at(params.keys.max_keys, params.keys.type, begin + d),
                     value * element_at(params.keys.min_keys, params.keys.type, begin + d));
    }
    sum += warp_sum(bound);
  }
  if (lane == 0) params.scores[rows.offset(h, i) + block] = params.scale * (sum / static_cast<float>(group));
}

}  // namespace ei::kernels::cuda
