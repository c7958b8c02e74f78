#include <algorithm>

#include "kernels/pages/cuda/page_elements.cuh"
#include "kernels/window_scores/cuda/form_logits.cuh"
#include "kernels/window_scores/cuda/slot_measures_cuda.h"

namespace ei::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kParts = 64;  // of a head's slots, summed apart

__device__ float element_of(const SlotMeasures& measures, const DeviceKvHead& head, int64_t slot, int32_t dim,
                            bool value) {
  const int32_t slots = measures.pages.shape.slots;
  return page_element(measures.pages, head.pages[slot / slots], slot % slots, dim, value);
}

// A warp for each slot. Cosines where `means` is given: [kv_heads, head_dim + 1], the length of the mean behind it.
__global__ void slots_kernel(SlotMeasures measures, bool value, bool negated, const float* means, float* out,
                             int64_t stride) {
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
  const float measured = mean == nullptr ? length : lengths > 0 ? product / lengths : 0.0f;
  out[h * stride + slot] = negated ? -measured : measured;
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

// A tile of keys under one head's form.
template <int kEach>
__global__ void __launch_bounds__(kFormThreads)
    logits_of_forms_kernel(SlotMeasures measures, ExpectedScoreParams params, float* logits) {
  extern __shared__ float4 tile_of_keys[];  // form_tile_bytes()
  const auto query_head = static_cast<int32_t>(blockIdx.y);
  const DeviceKvHead head = measures.heads[query_head / (params.num_heads / measures.kv_heads)];
  const int32_t dim = measures.pages.shape.head_dim;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (32 * kEach);
  if (first >= head.length) return;
  form_logits<kEach>(
      params.linear + int64_t{query_head} * dim, params.quadratic + int64_t{query_head} * dim * dim, dim,
      head.length - first, [&](int32_t key, int32_t d) { return element_of(measures, head, first + key, d, false); },
      reinterpret_cast<KeysOfLane<kEach>*>(tile_of_keys), logits + query_head * measures.longest + first);
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
                  cudaStream_t queue, bool negated = false) {
  const dim3 grid(static_cast<unsigned>((measures.longest + kWarps - 1) / kWarps),
                  static_cast<unsigned>(measures.kv_heads));
  slots_kernel<<<grid, kThreads, 0, queue>>>(measures, value, negated, means, out, stride);
}

// Shared memory that a block may have on the GPU in use, where it asks for more than any may.
Result<int> most_shared_bytes() {
  int device = 0;
  int bytes = 0;
  EI_RETURN_IF_ERROR(cuda_status(cudaGetDevice(&device), "expecting attention"));
  EI_RETURN_IF_ERROR(cuda_status(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                                 "expecting attention"));
  return bytes;
}

template <int kEach>
Status launch_tiles(const SlotMeasures& measures, const ExpectedScoreParams& params, float* logits,
                    cudaStream_t queue) {
  constexpr int kKeys = 32 * kEach;
  const auto bytes = static_cast<int>(form_tile_bytes(measures.pages.shape.head_dim, kKeys));
  const auto kernel = logits_of_forms_kernel<kEach>;
  EI_RETURN_IF_ERROR(cuda_status(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                                 "expecting attention"));
  const dim3 grid(static_cast<unsigned>((measures.longest + kKeys - 1) / kKeys),
                  static_cast<unsigned>(params.num_heads));
  kernel<<<grid, kFormThreads, static_cast<size_t>(bytes), queue>>>(measures, params, logits);
  return launched("expecting attention");
}

Status launch_logits(const SlotMeasures& measures, const ExpectedScoreParams& params, float* logits,
                     cudaStream_t queue) {
  const int32_t dim = measures.pages.shape.head_dim;
  EI_ASSIGN_OR_RETURN(const int most_bytes, most_shared_bytes());
  switch (form_tile_keys(dim, most_bytes)) {
    case 128: return launch_tiles<4>(measures, params, logits, queue);
    case 64: return launch_tiles<2>(measures, params, logits, queue);
    case 32: return launch_tiles<1>(measures, params, logits, queue);
    default: break;
  }
  return make_error(ErrorKind::kModel,
                    "heads of %d dimensions are more than this GPU's %d bytes of shared memory hold; take another "
                    "--kv-policy",
                    dim, most_bytes);
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
    launch_slots(measures, false, nullptr, params.out, params.stride, queue, params.negated);
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
  launch_slots(measures, false, means, params.out, params.stride, queue, params.negated);
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
  EI_RETURN_IF_ERROR(launch_logits(measures, params, logits, queue));
  contributions_kernel<<<static_cast<unsigned>(params.num_heads), 1024, 0, queue>>>(measures, params, logits, lengths);
  return launched("expecting attention");
}

}  // namespace ei::kernels::cuda
