// How many of the largest probabilities of a row hold a share of it, counted by one block of threads.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ei::kernels::cuda {

inline constexpr int kCoverThreads = 256;

struct CoverShared {
  uint64_t parts[kCoverThreads];
};

// Probabilities as multiples of 2^-62: exact from 2^-39 on, and so are their sums, whatever the order.
__device__ inline uint64_t in_units(float probability) {
  return static_cast<uint64_t>(static_cast<double>(probability) * 0x1p62);
}

// Over all threads of the block; everyone gets the sum.
__device__ inline uint64_t cover_sum(CoverShared& shared, uint64_t value) {
  const unsigned thread = threadIdx.x;
  __syncthreads();  // nobody reads the sum of an earlier call any more
  shared.parts[thread] = value;
  __syncthreads();
  for (unsigned half = kCoverThreads / 2; half > 0; half /= 2) {
    if (thread < half) shared.parts[thread] += shared.parts[thread + half];
    __syncthreads();
  }
  return shared.parts[0];
}

// The smallest n whose n largest of probability(0) ... probability(size - 1), none of them negative, sum to `cover` at
// least; all where they do not. Everyone gets it; kCoverThreads threads take part.
template <typename Probability>
__device__ int64_t count_covering(CoverShared& shared, int64_t size, float cover, Probability probability) {
  if (cover <= 0) return 0;
  const uint64_t least = in_units(cover);
  const uint64_t wanted = least > 0 ? least : 1;
  // What is as large as the number with these bits, or larger: together, and how many.
  const auto sum_from = [&](uint32_t bits) {
    uint64_t sum = 0;
    for (int64_t i = threadIdx.x; i < size; i += kCoverThreads) {
      const float one = probability(i);
      if (__float_as_uint(one) >= bits) sum += in_units(one);
    }
    return cover_sum(shared, sum);
  };
  const auto count_from = [&](uint32_t bits) {
    uint64_t count = 0;
    for (int64_t i = threadIdx.x; i < size; i += kCoverThreads)
      count += __float_as_uint(probability(i)) >= bits ? 1 : 0;
    return static_cast<int64_t>(cover_sum(shared, count));
  };
  if (sum_from(0) < wanted) return size;
  // The smallest of those that are needed, bit by bit from the top; all that are larger hold less than the share.
  uint32_t smallest = 0;
  for (int bit = 30; bit >= 0; --bit) {
    const uint32_t candidate = smallest | 1u << bit;
    if (sum_from(candidate) >= wanted) smallest = candidate;
  }
  const uint64_t missing = wanted - sum_from(smallest + 1);
  const uint64_t each = in_units(__uint_as_float(smallest));
  const int64_t larger = count_from(smallest + 1);
  return larger + static_cast<int64_t>(each > 0 ? (missing + each - 1) / each : 1);
}

}  // namespace ei::kernels::cuda
