// Rows of queries and outputs in a thread's fragments of tensor core operands, and the softmax between two products.
// The fragment of a thread is the same for mma.sync and wgmma: rows lane / 4 and lane / 4 + 8 of 16, columns 2 * (lane
// % 4) and the next one of every 8.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tensor/dtype.h"

namespace ei::kernels::cuda {

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <typename T>
__device__ __forceinline__ uint32_t pack_pair(float low, float high) {
  uint32_t bits;
  if constexpr (std::is_same_v<T, __half>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  }
  return bits;
}

// Two neighbouring elements of a query row, in the type of the cache.
template <typename T>
__device__ __forceinline__ uint32_t load_query_pair(const void* q, DType type, int64_t index) {
  if (type != DType::kF32) return *reinterpret_cast<const uint32_t*>(static_cast<const uint16_t*>(q) + index);
  const float2 pair = *reinterpret_cast<const float2*>(static_cast<const float*>(q) + index);
  return pack_pair<T>(pair.x, pair.y);
}
__device__ __forceinline__ void store_pair(float* to, float low, float high) {
  *reinterpret_cast<float2*>(to) = make_float2(low, high);
}
template <typename T>
__device__ __forceinline__ void store_pair(T* to, float low, float high) {
  *reinterpret_cast<uint32_t*>(to) = pack_pair<T>(low, high);
}

// One of a thread's two rows of an accumulator, times `factor`, to the row that begins at element `index`.
template <int kDim, typename Out>
__device__ __forceinline__ void write_row_as(Out* to, const float (&out)[kDim / 2], int r, float factor) {
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i)
    store_pair(to + i * 8 + threadIdx.x % 4 * 2, out[4 * i + 2 * r] * factor, out[4 * i + 2 * r + 1] * factor);
}
template <int kDim>
__device__ __forceinline__ void write_row(void* to, DType type, int64_t index, const float (&out)[kDim / 2], int r,
                                          float factor) {
  if (type == DType::kBF16) {
    write_row_as<kDim>(static_cast<__nv_bfloat16*>(to) + index, out, r, factor);
  } else if (type == DType::kF16) {
    write_row_as<kDim>(static_cast<__half*>(to) + index, out, r, factor);
  } else {
    write_row_as<kDim>(static_cast<float*>(to) + index, out, r, factor);
  }
}

// Natural logarithm of the sum of exp(scores), from a base and a sum in powers of two.
__device__ __forceinline__ float log_of_sum(float base, float sum) {
  return sum > 0 ? (base + log2f(sum)) * 0.693147181f : -INFINITY;
}

// The running softmax of a thread's two rows, in powers of two. Sums are of this thread's columns alone.
struct RowState {
  float base[2] = {-INFINITY, -INFINITY};  // what exponents are relative to: the maximum so far, or nearly
  float sum[2] = {0, 0};
};

// scores -> softcap * tanh(scores / softcap), times log2(e); the factors are in `scale` and `softcap`.
template <int kCount>
__device__ __forceinline__ void cap_scores(float (&scores)[kCount], float scale, float softcap) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float grown = exp2_fast(scores[i] * scale);  // exp(2 x)
    scores[i] = softcap - 2 * softcap * reciprocal_fast(grown + 1);
  }
}

// scores[4 i + {0, 1}] belong to the first row, + {2, 3} to the second. Turns them into exp2(scale * score - base) and
// says by which factors what was summed so far must be multiplied. The base grows only when the maximum has left it by
// more than kSlack: until then weights stay below 2^kSlack, which costs no accuracy, and nothing needs the factors.
inline constexpr float kSlack = 6;

template <bool kLazy, int kCount>
__device__ __forceinline__ bool softmax_step(float (&scores)[kCount], float scale, RowState& state,
                                             float (&factor)[2]) {
  float top[4] = {scores[0], scores[1], scores[2], scores[3]};
#pragma unroll
  for (int i = 4; i < kCount; ++i) top[i % 4] = fmaxf(top[i % 4], scores[i]);
  bool grown = false;
  float best[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float value = fmaxf(top[2 * r], top[2 * r + 1]);
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 2));
    best[r] = fmaxf(state.base[r], value * scale);
    grown |= best[r] > state.base[r] + (kLazy ? kSlack : 0.0f);
    factor[r] = 1;
  }
  if (!kLazy || __any_sync(~0u, grown)) {
    grown = true;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      factor[r] = exp2_fast(state.base[r] - (best[r] == -INFINITY ? 0.0f : best[r]));
      state.base[r] = best[r];
    }
  } else {
    grown = false;
  }
  float shift[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) shift[r] = state.base[r] == -INFINITY ? 0.0f : state.base[r];
  float total[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    scores[i] = exp2_fast(fmaf(scores[i], scale, -shift[i % 4 / 2]));
    total[i % 4] += scores[i];
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) state.sum[r] = state.sum[r] * factor[r] + (total[2 * r] + total[2 * r + 1]);
  return grown;
}

// Multiplies the two rows of an accumulator.
template <int kCount>
__device__ __forceinline__ void scale_rows(float (&values)[kCount], float first, float second) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] *= i % 4 < 2 ? first : second;
}

// Weights of 16 keys at a time as the left operand of the product with V.
template <typename T, int kCount>
__device__ __forceinline__ void pack_weights(const float (&scores)[kCount], uint32_t (&packed)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) packed[i] = pack_pair<T>(scores[2 * i], scores[2 * i + 1]);
}

}  // namespace ei::kernels::cuda
