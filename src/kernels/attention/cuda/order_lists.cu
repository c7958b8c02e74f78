// The order in which the lists of a plan are begun: longest first.
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/cuda/device_rows.h"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// A dense segment reads everything before it; every segment reads itself, so that is left out.
__device__ int64_t list_length(const DevicePlan& plan, int list) {
  const int segment = list % plan.num_segments;
  if (plan.dense != nullptr && plan.dense[segment] != 0) {
    return int64_t{plan.first_segment + segment} * (plan.segment / plan.block);
  }
  return plan.offsets[list + 1] - plan.offsets[list];
}

// With many segments one kv_head is read to its end before the next is begun, because its keys then stay in the cache;
// with few, a long list of the last one would leave most of the GPU waiting.
constexpr int kManySegments = 64;

// What lists are ordered by, largest first.
__device__ int64_t list_weight(const DevicePlan& plan, int list) {
  const int64_t head = plan.num_segments < kManySegments ? 0 : list / plan.num_segments;
  return list_length(plan, list) - (head << 40);
}

// A list's place is the number of lists that come before it: longer ones, and equal ones of a lower number.
__global__ void __launch_bounds__(kThreads) rank_lists(DevicePlan plan, int lists, int32_t* order) {
  __shared__ int64_t lengths[kThreads];
  const int list = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int64_t own = list < lists ? list_weight(plan, list) : 0;
  int rank = 0;
  for (int begin = 0; begin < lists; begin += kThreads) {
    const int other = begin + static_cast<int>(threadIdx.x);
    __syncthreads();
    lengths[threadIdx.x] = other < lists ? list_weight(plan, other) : INT64_MIN;
    __syncthreads();
    for (int i = 0; i < kThreads; ++i) rank += lengths[i] > own || (lengths[i] == own && begin + i < list) ? 1 : 0;
  }
  if (list < lists) order[rank] = list;
}

}  // namespace

Status order_lists(const DevicePlan& plan, int32_t kv_heads, int32_t* order, void* stream) {
  const int lists = kv_heads * plan.num_segments;
  if (lists == 0) return {};
  rank_lists<<<(lists + kThreads - 1) / kThreads, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(plan, lists, order);
  return launched("ordering lists");
}

}  // namespace ei::kernels::cuda
