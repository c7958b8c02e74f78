#include "kernels/attention/cuda/attention_any.h"
#include "kernels/pages/cuda/page_elements.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMostPerLane = kMostAnyDim / 32;

__device__ int32_t position_of(const DeviceKvHead& head, int64_t slot) {
  return slot < head.listed ? head.listed_positions[slot]
                            : head.tail_position + static_cast<int32_t>(slot - head.listed);
}

// The slots that a row may read, numbered: the blocks of its list, then everything from `own_begin` on.
struct Reads {
  const int32_t* blocks = nullptr;
  int64_t listed = 0;  // slots in blocks
  int32_t block = 1;
  int64_t own_begin = 0;
  int64_t count = 0;
  __device__ int64_t slot(int64_t i) const {
    return i < listed ? static_cast<int64_t>(blocks[i / block]) * block + i % block : own_begin + i - listed;
  }
};

__device__ Reads reads_of(const AnyAttention& params, int32_t kv_head, int32_t position) {
  Reads reads;
  const DeviceKvHead& head = params.heads[kv_head];
  if (params.planned) {
    const DevicePlan& plan = params.plan;
    const int32_t i = position / plan.segment - plan.first_segment;
    if (plan.dense == nullptr || plan.dense[i] == 0) {
      const int64_t list = static_cast<int64_t>(kv_head) * plan.num_segments + i;
      reads.blocks = plan.blocks + plan.offsets[list];
      reads.block = plan.block;
      reads.listed = (plan.offsets[list + 1] - plan.offsets[list]) * plan.block;
      reads.own_begin = static_cast<int64_t>(position / plan.segment) * plan.segment;
    }
  }
  reads.count = reads.listed + max(int64_t{0}, head.length - reads.own_begin);
  return reads;
}

template <typename To>
__global__ void attention_any_kernel(AnyAttention params) {
  __shared__ float maxima[kWarps];
  __shared__ float sums[kWarps];
  __shared__ float parts[kWarps][kMostAnyDim];
  const int32_t dim = params.pages.shape.head_dim;
  const int64_t token = blockIdx.x;
  const auto query_head = static_cast<int32_t>(blockIdx.y);
  const int32_t kv_head = query_head / (params.num_heads / params.kv_heads);
  const DeviceKvHead& head = params.heads[kv_head];
  const int32_t position = params.first_position + static_cast<int32_t>(token);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const float* q = static_cast<const float*>(params.q.data) + token * params.q.stride + int64_t{query_head} * dim;
  float query[kMostPerLane];
  float sum_of[kMostPerLane];
#pragma unroll
  for (int d = 0; d < kMostPerLane; ++d) {
    query[d] = lane + 32 * d < dim ? q[lane + 32 * d] : 0.0f;
    sum_of[d] = 0;
  }
  float largest = -INFINITY;
  float weight_sum = 0;
  const Reads reads = reads_of(params, kv_head, position);
  for (int64_t i = warp; i < reads.count; i += kWarps) {
    const int64_t slot = reads.slot(i);
    if (slot >= head.length) continue;
    const int32_t at = position_of(head, slot);
    if (at > position || (params.window > 0 && at <= position - params.window)) continue;
    const void* page = head.pages[slot / params.pages.shape.slots];
    const int64_t inside = slot % params.pages.shape.slots;
    float score = 0;
#pragma unroll
    for (int d = 0; d < kMostPerLane; ++d) {
      if (32 * d < dim && lane + 32 * d < dim)
        score += query[d] * page_element(params.pages, page, inside, lane + 32 * d, false);
    }
    score = params.scale * warp_sum(score);
    const float next = fmaxf(largest, score);
    const float keep = expf(largest - next);  // 0 at first
    const float weight = expf(score - next);
    weight_sum = weight_sum * keep + weight;
#pragma unroll
    for (int d = 0; d < kMostPerLane; ++d) {
      if (32 * d < dim && lane + 32 * d < dim)
        sum_of[d] = sum_of[d] * keep + weight * page_element(params.pages, page, inside, lane + 32 * d, true);
    }
    largest = next;
  }
  if (lane == 0) {
    maxima[warp] = largest;
    sums[warp] = weight_sum;
  }
#pragma unroll
  for (int d = 0; d < kMostPerLane; ++d)
    if (lane + 32 * d < dim) parts[warp][lane + 32 * d] = sum_of[d];
  __syncthreads();
  float most = -INFINITY;
  for (int w = 0; w < kWarps; ++w) most = fmaxf(most, maxima[w]);
  float total = 0;
  for (int w = 0; w < kWarps; ++w) total += sums[w] > 0 ? sums[w] * expf(maxima[w] - most) : 0.0f;
  To* out = static_cast<To*>(params.out.data) + token * params.out.stride + int64_t{query_head} * dim;
  for (int32_t d = static_cast<int32_t>(threadIdx.x); d < dim; d += kWarps * 32) {
    float value = 0;
    for (int w = 0; w < kWarps; ++w)
      if (sums[w] > 0) value += parts[w][d] * expf(maxima[w] - most);
    out[d] = from_float<To>(total > 0 ? value / total : 0.0f);
  }
}

}  // namespace

Status launch_attention_any(const AnyAttention& params, void* stream) {
  if (params.q.rows == 0) return {};
  EI_CHECK(params.q.type == DType::kF32);
  if (params.pages.shape.head_dim > kMostAnyDim) {
    return make_error(ErrorKind::kModel, "the GPU kernels attend with heads of up to %d dimensions, not %d",
                      kMostAnyDim, params.pages.shape.head_dim);
  }
  const dim3 grid(static_cast<unsigned>(params.q.rows), static_cast<unsigned>(params.num_heads));
  with_row_type(params.out.type, [&](auto to) {
    attention_any_kernel<decltype(to)><<<grid, kWarps * 32, 0, static_cast<cudaStream_t>(stream)>>>(params);
  });
  return launched("attention");
}

}  // namespace ei::kernels::cuda
