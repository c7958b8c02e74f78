// Over how many slots ratings spread: sum * exp(-sum(r log r) / sum), by one block of threads.
#pragma once

#include <cstdint>

namespace ei::kernels::cuda {

constexpr int32_t kSpreadThreads = 256;

struct SpreadShared {
  double sum[kSpreadThreads];
  double weighted[kSpreadThreads];
};

// The result is thread 0's.
__device__ inline float spread_of_ratings(SpreadShared& shared, const float* ratings, int64_t first, int64_t slots) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  double sum = 0;
  double weighted = 0;
  for (int64_t slot = first + thread; slot < slots; slot += kSpreadThreads) {
    const float rating = ratings[slot];
    if (!(rating > 0)) continue;
    sum += rating;
    weighted += static_cast<double>(rating) * logf(rating);
  }
  shared.sum[thread] = sum;
  shared.weighted[thread] = weighted;
  __syncthreads();
  for (int32_t half = kSpreadThreads / 2; half > 0; half /= 2) {
    if (thread < half) {
      shared.sum[thread] += shared.sum[thread + half];
      shared.weighted[thread] += shared.weighted[thread + half];
    }
    __syncthreads();
  }
  const double all = shared.sum[0];
  return all > 0 ? static_cast<float>(all * exp(-shared.weighted[0] / all)) : 0.0f;
}

}  // namespace ei::kernels::cuda
