#include <algorithm>

#include "kernels/pages/cuda/page_elements.cuh"
#include "kernels/window_scores/cuda/slot_measures_cuda.h"

namespace ei::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kParts = 64;      // of a head's slots, summed apart
constexpr int kTileKeys = 128;  // four a lane

__device__ float element_of(const SlotMeasures& measures, const DeviceKvHead& head, int64_t slot, int32_t dim,
                            bool value) {
  const int32_t slots = measures.pages.shape.slots;
  return page_element(measures.pages, head.pages[slot / slots], slot % slots, dim, value);
}

// A warp for each slot. Cosines where `means` is given: [kv_heads, head_dim + 1], the length of the mean behind it.
__global__ void slots_kernel(SlotMeasures measures, bool value, const float* means, float* out, int64_t stride) {
  const auto h = static_cast<int32_t>(blockIdx.y);
  const DeviceKvHead head = measures.heads[h];
  const int32_t dim = measures.pages.shape.head_dim;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (slot >= head.length) return;
  const float* mean = means == nullptr ? nullptr : means + int64_t{h} * (dim + 1);
  float squares = 0;
  float product = 0;
  for (int32_t d = lane; d < dim; d += 32) {
    const float one = element_of(measures, head, slot, d, value);
    squares += one * one;
    if (mean != nullptr) product += one * mean[d];
  }
  const float length = sqrtf(warp_sum(squares));
  product = warp_sum(product);
  if (lane != 0) return;
  const float lengths = mean == nullptr ? 0 : length * mean[dim];
  out[h * stride + slot] = mean == nullptr ? length : lengths > 0 ? product / lengths : 0.0f;
}

// parts[h, part, d] = sum of normalised keys of a part of the slots.
__global__ void parts_kernel(SlotMeasures measures, const float* lengths, float* parts) {
  const auto h = static_cast<int32_t>(blockIdx.y);
  const DeviceKvHead head = measures.heads[h];
  const int32_t dim = measures.pages.shape.head_dim;
  const int64_t begin = int64_t{head.length} * blockIdx.x / kParts;
  const int64_t end = int64_t{head.length} * (blockIdx.x + 1) / kParts;
  for (auto d = static_cast<int32_t>(threadIdx.x); d < dim; d += kThreads) {
    float sum = 0;
    for (int64_t slot = begin; slot < end; ++slot) {
      const float length = lengths[h * measures.longest + slot];
      if (length > 0) sum += element_of(measures, head, slot, d, false) / length;
    }
    parts[(int64_t{h} * kParts + blockIdx.x) * dim + d] = sum;
  }
}

__global__ void means_kernel(const float* parts, int32_t dim, float* means) {
  const float* own = parts + int64_t{blockIdx.x} * kParts * dim;
  float* mean = means + int64_t{blockIdx.x} * (dim + 1);
  float squares = 0;
  for (auto d = static_cast<int32_t>(threadIdx.x); d < dim; d += kThreads) {
    float sum = 0;
    for (int part = 0; part < kParts; ++part) sum += own[int64_t{part} * dim + d];
    mean[d] = sum;
    squares += sum * sum;
  }
  squares = block_sum(squares);
  if (threadIdx.x == 0) mean[dim] = sqrtf(squares);
}

// Logits of a tile of keys under one head's form. Warps share the rows of the triangle; a lane has four keys.
__global__ void __launch_bounds__(kThreads)
    logits_of_forms_kernel(SlotMeasures measures, ExpectedScoreParams params, float* logits) {
  extern __shared__ float4 tile_of_keys[];  // [head_dim, kTileKeys / 4], then [kWarps, kTileKeys / 4]
  constexpr int kFours = kTileKeys / 4;
  const auto query_head = static_cast<int32_t>(blockIdx.y);
  const DeviceKvHead head = measures.heads[query_head / (params.num_heads / measures.kv_heads)];
  const int32_t dim = measures.pages.shape.head_dim;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTileKeys;
  if (first >= head.length) return;
  auto* keys = reinterpret_cast<float*>(tile_of_keys);
  for (auto i = static_cast<int32_t>(threadIdx.x); i < dim * kTileKeys; i += kThreads) {
    const int32_t key = i / dim;
    const int32_t d = i % dim;
    keys[d * kTileKeys + key] = first + key < head.length ? element_of(measures, head, first + key, d, false) : 0.0f;
  }
  __syncthreads();
  const float* linear = params.linear + int64_t{query_head} * dim;
  const float* quadratic = params.quadratic + int64_t{query_head} * dim * dim;
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  float4 sum = make_float4(0, 0, 0, 0);
  for (auto i = static_cast<int32_t>(threadIdx.x / 32); i < dim; i += kWarps) {
    float4 inner = make_float4(linear[i], linear[i], linear[i], linear[i]);
#pragma unroll 4
    for (int32_t j = 0; j <= i; ++j) {
      const float factor = quadratic[int64_t{i} * dim + j];
      const float4 key = tile_of_keys[j * kFours + lane];
      inner.x += factor * key.x;
      inner.y += factor * key.y;
      inner.z += factor * key.z;
      inner.w += factor * key.w;
    }
    const float4 key = tile_of_keys[i * kFours + lane];
    sum.x += inner.x * key.x;
    sum.y += inner.y * key.y;
    sum.z += inner.z * key.z;
    sum.w += inner.w * key.w;
  }
  float4* parts = tile_of_keys + dim * kFours;
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= kTileKeys || first + threadIdx.x >= head.length) return;
  float logit = 0;
  for (int warp = 0; warp < kWarps; ++warp)
    logit += reinterpret_cast<const float*>(parts)[warp * kTileKeys + threadIdx.x];
  logits[query_head * measures.longest + first + threadIdx.x] = logit;
}

// Logits become shares of attention, times the lengths of the values. A block of threads for each head.
__global__ void contributions_kernel(SlotMeasures measures, ExpectedScoreParams params, const float* logits,
                                     const float* lengths) {
  const auto query_head = static_cast<int32_t>(blockIdx.x);
  const int32_t kv_head = query_head / (params.num_heads / measures.kv_heads);
  const int64_t length = measures.heads[kv_head].length;
  const float* row = logits + query_head * measures.longest;
  float largest = -INFINITY;
  for (int64_t slot = threadIdx.x; slot < length; slot += blockDim.x) largest = fmaxf(largest, row[slot]);
  largest = block_max(largest);
  float sum = 0;
  for (int64_t slot = threadIdx.x; slot < length; slot += blockDim.x) sum += expf(row[slot] - largest);
  sum = block_sum(sum);
  for (int64_t slot = threadIdx.x; slot < length; slot += blockDim.x)
    params.out[query_head * params.stride + slot] =
        expf(row[slot] - largest) / sum * lengths[kv_head * measures.longest + slot];
}

void launch_slots(const SlotMeasures& measures, bool value, const float* means, float* out, int64_t stride,
                  cudaStream_t queue) {
  const dim3 grid(static_cast<unsigned>((measures.longest + kWarps - 1) / kWarps),
                  static_cast<unsigned>(measures.kv_heads));
  slots_kernel<<<grid, kThreads, 0, queue>>>(measures, value, means, out, stride);
}

}  // namespace

int64_t key_measure_floats(const SlotMeasures& measures) {
  const int64_t dim = measures.pages.shape.head_dim;
  return measures.kv_heads * (measures.longest + kParts * dim + dim + 1);
}

Status launch_key_measure(const SlotMeasures& measures, const KeyMeasureParams& params, void* stream) {
  auto* queue = static_cast<cudaStream_t>(stream);
  if (measures.longest == 0) return {};
  if (!params.cosine) {
    launch_slots(measures, false, nullptr, params.out, params.stride, queue);
    return launched("measuring keys");
  }
  const int32_t dim = measures.pages.shape.head_dim;
  float* lengths = measures.room;
  float* parts = lengths + measures.kv_heads * measures.longest;
  float* means = parts + int64_t{measures.kv_heads} * kParts * dim;
  launch_slots(measures, false, nullptr, lengths, measures.longest, queue);
  parts_kernel<<<dim3(kParts, static_cast<unsigned>(measures.kv_heads)), kThreads, 0, queue>>>(measures, lengths,
                                                                                               parts);
  means_kernel<<<static_cast<unsigned>(measures.kv_heads), kThreads, 0, queue>>>(parts, dim, means);
  launch_slots(measures, false, means, params.out, params.stride, queue);
  return launched("measuring keys");
}

int64_t expected_floats(const SlotMeasures& measures, const ExpectedScoreParams& params) {
  return (int64_t{measures.kv_heads} + params.num_heads) * measures.longest;
}

Status launch_expected(const SlotMeasures& measures, const ExpectedScoreParams& params, void* stream) {
  auto* queue = static_cast<cudaStream_t>(stream);
  if (measures.longest == 0) return {};
  float* lengths = measures.room;
  float* logits = lengths + measures.kv_heads * measures.longest;
  launch_slots(measures, true, nullptr, lengths, measures.longest, queue);
  const int bytes = (measures.pages.shape.head_dim + kWarps) * kTileKeys * static_cast<int>(sizeof(float));
  EI_RETURN_IF_ERROR(cuda_status(
      cudaFuncSetAttribute(logits_of_forms_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "expecting"));
  const dim3 grid(static_cast<unsigned>((measures.longest + kTileKeys - 1) / kTileKeys),
                  static_cast<unsigned>(params.num_heads));
  logits_of_forms_kernel<<<grid, kThreads, static_cast<size_t>(bytes), queue>>>(measures, params, logits);
  contributions_kernel<<<static_cast<unsigned>(params.num_heads), 1024, 0, queue>>>(measures, params, logits, lengths);
  return launched("expecting attention");
}

}  // namespace ei::kernels::cuda
