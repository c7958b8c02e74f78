// The largest values of a row inside one block of threads, by digits of eight bits from the top.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ei::kernels::cuda {

// Floats as integers of the same order; NaN comes first.
__device__ inline uint32_t ordered(float value) {
  const uint32_t bits = __float_as_uint(value + 0.0f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0;
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float from_ordered(uint32_t key) {
  return __uint_as_float((key >> 31) != 0 ? key & 0x7fffffffu : ~key);
}

inline constexpr int kSelectThreads = 1024;
inline constexpr int kDigits = 256;

inline constexpr int kSelectWarps = kSelectThreads / 32;
static_assert(kSelectWarps == 32);  // as many as a warp has lanes
inline constexpr int kHeld = 16;    // keys of a thread that fit its registers: rounds of kSelectThreads keys

struct SelectShared {
  int32_t histogram[kDigits];
  uint32_t prefix;
  int32_t wanted;
  int32_t reached[2][kSelectWarps];
  // How many keys of a round a warp takes: larger ones, and equal ones times 2^16.
  uint32_t taken[kHeld][kSelectWarps];
  uint32_t rounds[kHeld];
};

// The `count`-th largest of the keys that the threads hold, `rounds` of kEach a thread (0 where there is none), bit by
// bit from the top. `wanted`: how many of those that equal it are among them. Where a shorter prefix separates them
// already, the result lies just below it and none of its equals is wanted.
template <int kEach>
__device__ inline uint32_t nth_largest(SelectShared& shared, const uint32_t (&keys)[kEach], int rounds, int32_t count,
                                       int32_t& wanted) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  uint32_t found = 0;
  int32_t above = 0;  // that are larger than everything which begins with `found`
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t candidate = found | 1u << bit;
    int32_t mine = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (i >= rounds) break;
      mine += keys[i] >= candidate ? 1 : 0;
    }
    mine = __reduce_add_sync(~0u, mine);
    // Two rows in turn: whoever writes one again has waited for those who read it.
    if (lane == 0) shared.reached[bit % 2][warp] = mine;
    __syncthreads();
    const int32_t reach = __reduce_add_sync(~0u, shared.reached[bit % 2][lane]);
    if (reach == count) {
      wanted = 0;
      return candidate - 1;
    }
    if (reach > count) {
      found = candidate;
    } else {
      above = reach;
    }
  }
  wanted = count - above;
  return found;
}

// Calls take(place, index) for the `count` largest of key(0) ... key(size - 1), with ascending indices; among equals
// the lower index comes first. All threads of the block take part.
template <typename Key, typename Take>
__device__ void take_largest(SelectShared& shared, int32_t size, int32_t count, Key key, Take take) {
  static_assert(kHeld * kSelectThreads < 1 << 16);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  if (count >= size) {
    for (int32_t i = thread; i < size; i += kSelectThreads) take(i, i);
    return;
  }
  if (count <= 0) return;
  uint32_t prefix = 0;
  int32_t wanted = count;  // of the keys that begin with the prefix
  const bool few = size <= kHeld * kSelectThreads;
  const int most = few ? (size + kSelectThreads - 1) / kSelectThreads : kHeld;  // rounds that hold anything
  uint32_t held[kHeld];
  const auto hold = [&](int32_t begin) {
#pragma unroll
    for (int r = 0; r < kHeld; ++r) {
      if (r >= most) break;
      const int32_t i = begin + thread + r * kSelectThreads;
      held[r] = i < size ? key(i) : 0u;
    }
  };
  __syncthreads();  // the shared memory may be in use for what came before
  if (few) {
    hold(0);
    prefix = nth_largest(shared, held, most, count, wanted);
  }
  const auto count_digit = [&](uint32_t value, bool there, uint32_t mask, int shift) {
    const bool counts = there && (value & mask) == prefix;
    const int digit = counts ? static_cast<int>(value >> shift & 255u) : -1;
    const unsigned same = __match_any_sync(~0u, digit);
    if (counts && lane == __ffs(static_cast<int>(same)) - 1) atomicAdd(&shared.histogram[digit], __popc(same));
  };
  for (int shift = few ? -1 : 24; shift >= 0; shift -= 8) {
    __syncthreads();
    if (thread < kDigits) shared.histogram[thread] = 0;
    __syncthreads();
    const uint32_t mask = shift == 24 ? 0u : ~0u << (shift + 8);
    const int32_t whole = (size + kSelectThreads - 1) / kSelectThreads * kSelectThreads;
#pragma unroll 4
    for (int32_t i = thread; i < whole; i += kSelectThreads) count_digit(i < size ? key(i) : 0u, i < size, mask, shift);
    __syncthreads();
    if (thread < 32) {  // eight digits a lane, sums from the top
      int32_t sum = 0;
      for (int i = 0; i < kDigits / 32; ++i) sum += shared.histogram[thread * (kDigits / 32) + i];
      int32_t above = sum;  // of this lane and the higher ones
      for (int step = 1; step < 32; step *= 2) {
        const int32_t other = __shfl_down_sync(~0u, above, step);
        if (lane + step < 32) above += other;
      }
      int32_t higher = above - sum;
      for (int digit = (thread + 1) * (kDigits / 32) - 1; digit >= thread * (kDigits / 32); --digit) {
        const int32_t count_here = shared.histogram[digit];
        if (higher < wanted && higher + count_here >= wanted) {
          shared.prefix = prefix | static_cast<uint32_t>(digit) << shift;
          shared.wanted = wanted - higher;
        }
        higher += count_here;
      }
    }
    __syncthreads();
    prefix = shared.prefix;
    wanted = shared.wanted;
  }
  // All keys above the prefix, and the first `wanted` that equal it. Rounds of keys together: each warp counts what it
  // takes of every round, then all know where their keys go.
  const int warp = thread / 32;
  const unsigned lower = (1u << lane) - 1;
  int32_t greater_before = 0;
  int32_t equal_before = 0;
  for (int32_t begin = 0; begin < size; begin += kHeld * kSelectThreads) {
    if (!few) hold(begin);
    uint32_t mine = 0;  // counts of round `lane`
#pragma unroll
    for (int r = 0; r < kHeld; ++r) {
      if (r >= most) break;
      const bool there = begin + thread + r * kSelectThreads < size;
      const auto above = static_cast<uint32_t>(__popc(__ballot_sync(~0u, there && held[r] > prefix)));
      const auto same = static_cast<uint32_t>(__popc(__ballot_sync(~0u, there && held[r] == prefix)));
      if (lane == r) mine = above | same << 16;
    }
    __syncthreads();
    if (lane < kHeld) shared.taken[lane][warp] = mine;
    __syncthreads();
    if (warp < kHeld) {  // a warp a round: what the warps before take of it
      const uint32_t own = shared.taken[warp][lane];
      uint32_t sum = own;
      for (int step = 1; step < 32; step *= 2) {
        const uint32_t other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
      }
      shared.taken[warp][lane] = sum - own;
      if (lane == 31) shared.rounds[warp] = sum;
    }
    __syncthreads();
    uint32_t rounds = 0;
#pragma unroll
    for (int r = 0; r < kHeld; ++r) {
      if (r >= most) break;
      const int32_t i = begin + thread + r * kSelectThreads;
      const bool above = i < size && held[r] > prefix;
      const bool same = i < size && held[r] == prefix;
      const uint32_t before = rounds + shared.taken[r][warp];
      rounds += shared.rounds[r];
      const int32_t greater =
          greater_before + static_cast<int32_t>(before & 0xffffu) + __popc(__ballot_sync(~0u, above) & lower);
      const int32_t equal =
          equal_before + static_cast<int32_t>(before >> 16) + __popc(__ballot_sync(~0u, same) & lower);
      if (above || (same && equal < wanted)) take(greater + (equal < wanted ? equal : wanted), i);
    }
    greater_before += static_cast<int32_t>(rounds & 0xffffu);
    equal_before += static_cast<int32_t>(rounds >> 16);
  }
}

}  // namespace ei::kernels::cuda
