#include <algorithm>

#include "kernels/cuda/device_rows.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/largest.cuh"
#include "kernels/window_scores/cuda/slot_choice_cuda.h"
#include "kernels/window_scores/cuda/spread.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr float kLargest = 3.402823466e+38f;  // protected slots

// Where the slots of a launch's sets begin, and how many they are.
struct Sets {
  int64_t begin[kMostSets];
  int32_t slots[kMostSets];
};

__device__ float of_group(const RateSlotsParams& params, int32_t set, int64_t slot) {
  const float* from = params.scores + int64_t{set} * params.group * params.stride + slot;
  float value = from[0];
  for (int32_t g = 1; g < params.group; ++g) {
    const float other = from[g * params.stride];
    value = params.mean_of_group ? value + other : fmaxf(value, other);
  }
  return params.mean_of_group ? __fdiv_rn(value, static_cast<float>(params.group)) : value;
}

// The additions in the order of the host's, none of them fused: the same bits.
__global__ void __launch_bounds__(kThreads)
    rate_kernel(RateSlotsParams params, const __grid_constant__ Sets sets, int32_t first_set) {
  extern __shared__ float near[];  // kThreads and the neighbours on both sides
  const auto set = static_cast<int32_t>(blockIdx.y);
  const int64_t slots = sets.slots[set];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads;
  if (first >= slots) return;
  const int32_t half = params.kernel / 2;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < kThreads + 2 * half; i += kThreads) {
    const int64_t slot = first - half + i;
    near[i] = slot >= 0 && slot < slots ? of_group(params, first_set + set, slot) : 0.0f;
  }
  __syncthreads();
  const int64_t slot = first + threadIdx.x;
  if (slot >= slots) return;
  const auto begin = static_cast<int32_t>(slot - half > 0 ? 0 : half - slot);
  const auto end = static_cast<int32_t>(slot + half + 1 < slots ? 2 * half + 1 : slots - slot + half);
  const float* from = near + threadIdx.x;
  float value = params.mean_of_near ? 0.0f : from[begin];
  for (int32_t i = begin; i < end; ++i) value = params.mean_of_near ? value + from[i] : fmaxf(value, from[i]);
  if (params.mean_of_near) value = __fdiv_rn(value, static_cast<float>(params.kernel));
  params.ratings[sets.begin[set] + slot] = slot < params.sinks ? kLargest : value;
}

__global__ void __launch_bounds__(kSelectThreads)
    choose_kernel(ChooseSlotsParams params, const __grid_constant__ Sets sets, int32_t first_set) {
  __shared__ SelectShared shared;
  const auto set = static_cast<int32_t>(blockIdx.x);
  const float* ratings = params.ratings + sets.begin[set];
  int32_t* to = params.chosen + (first_set + set) * params.stride;
  take_largest(
      shared, sets.slots[set], params.counts[first_set + set], [&](int32_t i) { return ordered(ratings[i]); },
      [&](int32_t place, int32_t i) { to[place] = i; });
}

__global__ void __launch_bounds__(kSpreadThreads)
    spread_kernel(SpreadSlotsParams params, const __grid_constant__ Sets sets, int32_t first_set) {
  __shared__ SpreadShared shared;
  const auto set = static_cast<int32_t>(blockIdx.x);
  const float spread = spread_of_ratings(shared, params.ratings + sets.begin[set], params.first, sets.slots[set]);
  if (threadIdx.x == 0) params.spreads[first_set + set] = spread;
}

__global__ void __launch_bounds__(kThreads)
    leave_out_kernel(LeaveOutSlotsParams params, const __grid_constant__ Sets sets, int32_t first_set) {
  const auto set = static_cast<int32_t>(blockIdx.x);
  const int32_t wanted = params.counts[first_set + set];
  const int32_t count = wanted < sets.slots[set] ? wanted : sets.slots[set];
  const int32_t* chosen = params.chosen + (first_set + set) * params.stride;
  float* ratings = params.ratings + sets.begin[set];
  for (auto i = static_cast<int32_t>(threadIdx.x); i < count; i += kThreads) ratings[chosen[i]] = nanf("");
}

// Calls launch(sets, first, count) for at most kMostSets sets at a time.
template <typename Launch>
void in_parts(std::span<const int64_t> slots, Launch launch) {
  int64_t at = 0;
  for (size_t first = 0; first < slots.size(); first += kMostSets) {
    Sets sets{};
    const size_t count = std::min<size_t>(kMostSets, slots.size() - first);
    for (size_t i = 0; i < count; ++i) {
      sets.begin[i] = at;
      sets.slots[i] = static_cast<int32_t>(slots[first + i]);
      at += slots[first + i];
    }
    launch(sets, static_cast<int32_t>(first), static_cast<unsigned>(count));
  }
}

}  // namespace

Status launch_rate_slots(const RateSlotsParams& params, void* stream) {
  const int64_t most = params.slots.empty() ? 0 : *std::max_element(params.slots.begin(), params.slots.end());
  if (most == 0) return {};
  const auto tiles = static_cast<unsigned>((most + kThreads - 1) / kThreads);
  const auto bytes = static_cast<size_t>(kThreads + params.kernel) * sizeof(float);
  in_parts(params.slots, [&](const Sets& sets, int32_t first, unsigned count) {
    rate_kernel<<<dim3(tiles, count), kThreads, bytes, static_cast<cudaStream_t>(stream)>>>(params, sets, first);
  });
  return launched("rate_slots");
}

Status launch_choose_slots(const ChooseSlotsParams& params, void* stream) {
  in_parts(params.slots, [&](const Sets& sets, int32_t first, unsigned count) {
    choose_kernel<<<count, kSelectThreads, 0, static_cast<cudaStream_t>(stream)>>>(params, sets, first);
  });
  return launched("choose_slots");
}

Status launch_spread_slots(const SpreadSlotsParams& params, void* stream) {
  in_parts(params.slots, [&](const Sets& sets, int32_t first, unsigned count) {
    spread_kernel<<<count, kSpreadThreads, 0, static_cast<cudaStream_t>(stream)>>>(params, sets, first);
  });
  return launched("spread_slots");
}

Status launch_leave_out_slots(const LeaveOutSlotsParams& params, void* stream) {
  in_parts(params.slots, [&](const Sets& sets, int32_t first, unsigned count) {
    leave_out_kernel<<<count, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(params, sets, first);
  });
  return launched("leave_out_slots");
}

}  // namespace ei::kernels::cuda
