#include "kernels/block_scores/cuda/midrange_cuda.h"
#include "kernels/cuda/grid_rows.cuh"
#include "kernels/pages/cuda/page_elements.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__device__ void store(void* to, DType type, int64_t index, float value) {
  if (type == DType::kF32) {
    static_cast<float*>(to)[index] = value;
  } else if (type == DType::kBF16) {
    static_cast<__nv_bfloat16*>(to)[index] = from_float<__nv_bfloat16>(value);
  } else {
    static_cast<__half*>(to)[index] = from_float<__half>(value);
  }
}

__global__ void extremes_kernel(DevicePages pages, const DeviceKvHead* heads, int32_t size, int64_t first,
                                BlockExtremes out) {
  const auto h = static_cast<int64_t>(blockIdx.y);
  const int64_t block = first + blockIdx.x;
  for (auto d = static_cast<int32_t>(threadIdx.x); d < pages.shape.head_dim; d += static_cast<int32_t>(blockDim.x)) {
    float high = -INFINITY;
    float low = INFINITY;
    for (int64_t slot = block * size; slot < (block + 1) * size; ++slot) {
      const float key =
          page_element(pages, heads[h].pages[slot / pages.shape.slots], slot % pages.shape.slots, d, false);
      high = fmaxf(high, key);
      low = fminf(low, key);
    }
    const int64_t at = h * out.head_stride + block * out.block_stride + d;
    store(out.max_keys, out.type, at, high);
    store(out.min_keys, out.type, at, low);
  }
}

__global__ void midrange_kernel(QueryMidrangeParams params, int64_t width, int64_t segments) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= width) return;
  const int64_t lead = params.first_rows > 0 ? params.first_rows : params.segment;
  for_own_rows(segments, [&](int64_t i) {
    const int64_t begin = i == 0 ? 0 : lead + (i - 1) * params.segment;
    const int64_t whole = begin + (i == 0 ? lead : params.segment);
    const int64_t end = whole < params.tokens ? whole : params.tokens;
    float high = params.q[begin * params.q_stride + column];
    float low = high;
    for (int64_t token = begin + 1; token < end; ++token) {
      const float value = params.q[token * params.q_stride + column];
      high = fmaxf(high, value);
      low = fminf(low, value);
    }
    params.out[i * width + column] = (high + low) / 2;
  });
}

// One warp a block of one list.
__device__ void score_block(const BlockScoreParams& params, int64_t list) {
  const BlockRows& rows = params.rows;
  const auto h = static_cast<int32_t>(list / rows.num_segments);
  const auto i = static_cast<int32_t>(list % rows.num_segments);
  const int64_t block = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (block >= rows.visible(i)) return;
  const int32_t group = params.num_heads / rows.kv_heads;
  const float* q = params.queries + (int64_t{i} * params.num_heads + int64_t{h} * group) * params.head_dim;
  const int64_t begin = h * params.keys.head_stride + block * params.keys.block_stride;
  float sum = 0;
  for (int32_t g = 0; g < group; ++g) {
    float high = 0;
    float low = 0;
    for (auto d = static_cast<int32_t>(threadIdx.x % 32); d < params.head_dim; d += 32) {
      const float value = q[g * params.head_dim + d];
      high += value * element_at(params.keys.max_keys, params.keys.type, begin + d);
      low += value * element_at(params.keys.min_keys, params.keys.type, begin + d);
    }
    sum += fmaxf(warp_sum(high), warp_sum(low));
  }
  if (threadIdx.x % 32 == 0)
    params.scores[rows.offset(h, i) + block] = params.scale * (sum / static_cast<float>(group));
}

__global__ void scores_kernel(BlockScoreParams params) {
  for_own_rows(int64_t{params.rows.kv_heads} * params.rows.num_segments,
               [&](int64_t list) { score_block(params, list); });
}

__global__ void entropy_kernel(BlockEntropyParams params) {
  const BlockRows& rows = params.rows;
  const auto list = static_cast<int32_t>(blockIdx.x);
  const int32_t h = list / rows.num_segments;
  const int32_t i = list % rows.num_segments;
  const int64_t begin = rows.offset(h, i);
  const int64_t size = rows.visible(i);
  float largest = -INFINITY;
  for (int64_t j = threadIdx.x; j < size; j += kThreads) largest = fmaxf(largest, params.scores[begin + j]);
  largest = block_max(largest);
  float total = 0;
  for (int64_t j = threadIdx.x; j < size; j += kThreads) total += expf(params.scores[begin + j] - largest);
  total = block_sum(total);
  float entropy = 0;
  for (int64_t j = threadIdx.x; j < size; j += kThreads) {
    float p = expf(params.scores[begin + j] - largest) / total;
    if (params.previous != nullptr)
      p = params.previous_share * params.previous[begin + j] + (1 - params.previous_share) * p;
    if (params.probabilities != nullptr) params.probabilities[begin + j] = p;
    entropy -= p * logf(p + 1e-9f);
  }
  entropy = block_sum(entropy);
  if (threadIdx.x == 0) params.entropy[list] = fmaxf(entropy, 0.0f);
}

}  // namespace

Status launch_block_extremes(const DevicePages& pages, const DeviceKvHead* heads, const BlockExtremesParams& params,
                             void* stream) {
  if (params.num_blocks == 0) return {};
  const dim3 grid(static_cast<unsigned>(params.num_blocks), static_cast<unsigned>(params.kv.heads.size()));
  extremes_kernel<<<grid, 128, 0, static_cast<cudaStream_t>(stream)>>>(pages, heads, params.block, params.first_block,
                                                                       params.out);
  return launched("block_extremes");
}

Status launch_query_midrange(const QueryMidrangeParams& params, void* stream) {
  const int64_t width = int64_t{params.num_heads} * params.head_dim;
  const int64_t lead = params.first_rows > 0 ? params.first_rows : params.segment;
  const int64_t behind = params.tokens > lead ? params.tokens - lead : 0;
  const int64_t segments = 1 + (behind + params.segment - 1) / params.segment;
  const dim3 grid(static_cast<unsigned>((width + kThreads - 1) / kThreads), grid_rows(segments));
  midrange_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(params, width, segments);
  return launched("query_midrange");
}

Status launch_block_scores(const BlockScoreParams& params, void* stream) {
  const BlockRows& rows = params.rows;
  const int64_t most = rows.num_segments > 0 ? rows.visible(rows.num_segments - 1) : 0;
  if (most == 0) return {};
  constexpr int64_t kWarps = kThreads / 32;
  const dim3 grid(static_cast<unsigned>((most + kWarps - 1) / kWarps),
                  grid_rows(int64_t{rows.kv_heads} * rows.num_segments));
  scores_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(params);
  return launched("block_scores");
}

Status launch_block_entropy(const BlockEntropyParams& params, void* stream) {
  const auto lists = static_cast<unsigned>(params.rows.kv_heads * params.rows.num_segments);
  if (lists == 0) return {};
  entropy_kernel<<<lists, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(params);
  return launched("block_entropy");
}

}  // namespace ei::kernels::cuda
