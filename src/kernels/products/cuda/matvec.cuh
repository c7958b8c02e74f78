// One row of x times a matrix: the kernel, for weights in bf16, bytes, nibbles or five bits. Compiles on the host too,
// where a test runs it thread by thread.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/elements.cuh"
#include "kernels/products/cuda/matvec_cuda.h"

namespace ei::kernels::cuda {

inline constexpr int kMatvecWarps = 8;

// Eight neighbours of x.
struct Eight {
  float at[8];
};
__device__ inline Eight eight_of(const float* x) {
  const float4 low = reinterpret_cast<const float4*>(x)[0];
  const float4 high = reinterpret_cast<const float4*>(x)[1];
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}
__device__ inline Eight eight_of(const __nv_bfloat16* x) {
  const uint4 bits = *reinterpret_cast<const uint4*>(x);
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&bits);
  Eight eight;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __bfloat1622float2(pairs[i]);
    eight.at[2 * i] = pair.x;
    eight.at[2 * i + 1] = pair.y;
  }
  return eight;
}

// x in shared memory, in its own type. A lane reads kEach neighbours for each of its loads, and the lanes of a warp
// must not meet in a bank: so eights lie lane by lane. Eight `group` of the lane's part in step `step`:
template <int kEach>
__device__ int64_t eight_place(int64_t step, int group, int64_t lane) {
  return ((step * (kEach / 8) + group) * 32 + lane) * 8;
}

// Byte i of a word, as a float: behind the exponent of 2^23 it counts in ones. The units that convert integers are
// slower than those that permute bytes and add.
__device__ inline float byte_as_float(uint32_t word, int i) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u | static_cast<unsigned>(i))) - 8388608.0f;
#else
  return static_cast<float>(word >> 8 * i & 255u);
#endif
}
__device__ inline float signed_byte_as_float(uint32_t flipped, int i) {  // each byte with its sign bit turned over
#ifdef __CUDA_ARCH__
  return __uint_as_float(__byte_perm(flipped, 0x4b000000u, 0x7440u | static_cast<unsigned>(i))) - 8388736.0f;
#else
  return static_cast<float>(flipped >> 8 * i & 255u) - 128.0f;
#endif
}

// Each form: what a lane loads at once, and its product with x.
struct NarrowWeights {  // bf16
  static constexpr int kEach = 8;
  const uint4* weights;
  int64_t per_row;  // of these
  struct Held {
    uint4 bits;
  };
  __device__ Held load(int64_t row, int64_t piece) const { return {__ldcs(weights + row * per_row + piece)}; }
  template <typename X>
  __device__ float dot(const Held& held, const X* x, int64_t step, int64_t lane) const {
    const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&held.bits);
    const Eight eight = eight_of(x + eight_place<kEach>(step, 0, lane));
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = __bfloat1622float2(pairs[i]);
      sum += pair.x * eight.at[2 * i] + pair.y * eight.at[2 * i + 1];
    }
    return sum;
  }
};

template <int kBlock>
struct ByteWeights {
  static constexpr int kEach = 16;
  const uint4* codes;
  const __half* scales;
  int64_t per_row;
  struct Held {
    uint4 bits;
    __half scale;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    const int64_t at = row * per_row + piece;
    return {__ldcs(codes + at), scales[at * kEach / kBlock]};
  }
  template <typename X>
  __device__ float dot(const Held& held, const X* x, int64_t step, int64_t lane) const {
    const uint32_t words[4] = {held.bits.x, held.bits.y, held.bits.z, held.bits.w};
    float sum = 0;
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      const Eight eight = eight_of(x + eight_place<kEach>(step, group, lane));
#pragma unroll
      for (int i = 0; i < 8; ++i)
        sum += signed_byte_as_float(words[2 * group + i / 4] ^ 0x80808080u, i % 4) * eight.at[i];
    }
    return sum * __half2float(held.scale);
  }
};

struct NibbleWeights {
  static constexpr int kEach = 32;
  const uint4* codes;  // of a block: weights 0 to 15 in the low halves of its bytes, 16 to 31 in the high ones
  const __half2* scales;
  int64_t per_row;
  struct Held {
    uint4 bits;
    __half2 scale;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    const int64_t at = row * per_row + piece;
    return {__ldcs(codes + at), scales[at]};
  }
  template <typename X>
  __device__ float dot(const Held& held, const X* x, int64_t step, int64_t lane) const {
    const uint32_t words[4] = {held.bits.x, held.bits.y, held.bits.z, held.bits.w};
    float sum = 0;
    float plain = 0;
#pragma unroll
    for (int group = 0; group < 4; ++group) {
      const Eight eight = eight_of(x + eight_place<kEach>(step, group, lane));
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const uint32_t word = words[group % 2 * 2 + i / 4] >> (group < 2 ? 0 : 4) & 0x0f0f0f0fu;
        sum += byte_as_float(word, i % 4) * eight.at[i];
        plain += eight.at[i];
      }
    }
    const float2 scale = __half22float2(held.scale);
    return sum * scale.x + plain * scale.y;
  }
};

// Where the fifth bit of code i of a block of 32 lies in its word: so that a shift and a mask give those of four
// neighbours, each in a byte of its own.
__device__ constexpr int fifth_bit_place(int i) { return i % 4 * 8 + i / 4; }
// The fifth bits of codes 4 * four to 4 * four + 3, where they belong in bytes that hold a nibble each.
__device__ constexpr uint32_t fifth_bits(uint32_t word, int four) {
  return (four < 4 ? word << (4 - four) : word >> (four - 4)) & 0x10101010u;
}

// Nibbles with eight bytes more for 32 of them: scales and offsets of the first and the last 16, or one of each and the
// word of fifth bits.
template <bool kFifths>
struct FineWeights {
  static constexpr int kEach = 32;
  const uint4* codes;  // as nibbles
  const uint2* scales;
  int64_t per_row;
  struct Held {
    uint4 bits;
    uint2 scale;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    const int64_t at = row * per_row + piece;
    return {__ldcs(codes + at), __ldcs(scales + at)};
  }
  template <typename X>
  __device__ float dot(const Held& held, const X* x, int64_t step, int64_t lane) const {
    const uint32_t words[4] = {held.bits.x, held.bits.y, held.bits.z, held.bits.w};
    const auto* pairs = reinterpret_cast<const __half2*>(&held.scale);
    float sums[2] = {};  // of the first 16 and of the others
    float plain[2] = {};
#pragma unroll
    for (int group = 0; group < 4; ++group) {
      const Eight eight = eight_of(x + eight_place<kEach>(step, group, lane));
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        uint32_t word = words[group % 2 * 2 + i / 4] >> (group < 2 ? 0 : 4) & 0x0f0f0f0fu;
        if (kFifths) word |= fifth_bits(held.scale.y, 2 * group + i / 4);
        sums[group / 2] += byte_as_float(word, i % 4) * eight.at[i];
        plain[group / 2] += eight.at[i];
      }
    }
    const float2 first = __half22float2(pairs[0]);
    const float2 last = __half22float2(pairs[kFifths ? 0 : 1]);
    return sums[0] * first.x + plain[0] * first.y + (sums[1] * last.x + plain[1] * last.y);
  }
};

// use(form) with what reads these codes.
template <typename Use>
auto with_form(const DeviceCodes& weight, Use use) {
  const auto* codes = static_cast<const uint4*>(weight.codes);
  const auto* halves = static_cast<const __half*>(weight.scales);
  const auto* wide = static_cast<const uint2*>(weight.scales);
  const bool fine = weight.form.block == 16;
  if (weight.form.codes == Codes::kBytes) {
    const int64_t pieces = weight.cols / ByteWeights<32>::kEach;
    if (fine) return use(ByteWeights<16>{codes, halves, pieces});
    return use(ByteWeights<32>{codes, halves, pieces});
  }
  const int64_t pieces = weight.cols / NibbleWeights::kEach;
  if (weight.form.codes == Codes::kFives) return use(FineWeights<true>{codes, wide, pieces});
  if (fine) return use(FineWeights<false>{codes, wide, pieces});
  return use(NibbleWeights{codes, static_cast<const __half2*>(weight.scales), pieces});
}

// Eight zeros where `from` is null.
__device__ inline void copy_eight(const float* from, float* to) {
  auto* halves = reinterpret_cast<float4*>(to);
  for (int i = 0; i < 2; ++i) halves[i] = from != nullptr ? reinterpret_cast<const float4*>(from)[i] : float4{};
}
__device__ inline void copy_eight(const __nv_bfloat16* from, __nv_bfloat16* to) {
  *reinterpret_cast<uint4*>(to) = from != nullptr ? *reinterpret_cast<const uint4*>(from) : uint4{};
}

// cols is a multiple of kEach, and so of eight; x is 16-byte aligned.
template <typename Form, typename X>
__device__ void share_x(const X* x, int64_t cols, int64_t steps, X* shared) {
  constexpr int kEach = Form::kEach;
  constexpr int64_t kStep = 32 * kEach;
  const auto threads = static_cast<int64_t>(blockDim.x);
  for (int64_t i = 8 * static_cast<int64_t>(threadIdx.x); i < steps * kStep; i += 8 * threads) {
    const int64_t place = eight_place<kEach>(i / kStep, static_cast<int>(i % kEach / 8), i % kStep / kEach);
    copy_eight(i < cols ? x + i : nullptr, shared + place);
  }
}

// A warp takes one row at a time. `shared` has room for whole steps.
template <typename Form, typename X>
__device__ void matvec_rows(const Form& form, int64_t rows, int64_t cols, const X* x, float* y, const float* bias,
                            X* shared) {
  constexpr int64_t kStep = 32 * Form::kEach;
  const int64_t steps = (cols + kStep - 1) / kStep;
  share_x<Form>(x, cols, steps, shared);
  __syncthreads();
  const int64_t pieces = cols / Form::kEach;
  const auto lane = static_cast<int64_t>(threadIdx.x % 32);
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kMatvecWarps + threadIdx.x / 32; row < rows;
       row += static_cast<int64_t>(gridDim.x) * kMatvecWarps) {
    float sum = 0;
    int64_t step = 0;
    constexpr int kAhead = 4;  // loads in flight
    for (; (step + kAhead) * 32 <= pieces; step += kAhead) {
      typename Form::Held held[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) held[i] = form.load(row, (step + i) * 32 + lane);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) sum += form.dot(held[i], shared, step + i, lane);
    }
    for (; step < steps; ++step) {
      const int64_t piece = step * 32 + lane;
      if (piece < pieces) sum += form.dot(form.load(row, piece), shared, step, lane);
    }
    sum = warp_sum(sum);
    if (lane == 0) y[row] = sum + (bias != nullptr ? bias[row] : 0.0f);
  }
}

}  // namespace ei::kernels::cuda
