// Weights as files hold them, split into codes and scales that a warp reads side by side, and those back to bf16.
// Compiles on the host too, where a test runs it thread by thread.
#pragma once

#include <type_traits>

#include "kernels/products/cuda/coded_weight.cuh"
#include "kernels/products/cuda/matvec.cuh"

namespace ei::kernels::cuda {

__device__ inline __half2 as_halves(float2 scale) { return __floats2half2_rn(scale.x, scale.y); }

// What belongs to block `block` of 32 weights of which codes hold nibbles.
template <typename Type>
__device__ void split_scales(const Type& type, const uint8_t* from, int first, int64_t block, void* scales) {
  constexpr CodeForm kForm = Type::kForm;
  auto* to = static_cast<__half2*>(scales) + block * (kForm.scale_bytes(32) / static_cast<int64_t>(sizeof(__half2)));
  to[0] = as_halves(type.scale(from, first));
  if constexpr (kForm.codes == Codes::kFives) {
    uint32_t word = 0;
    for (int i = 0; i < 32; ++i) word |= static_cast<uint32_t>(type.code(from, first + i) >> 4) << fifth_bit_place(i);
    reinterpret_cast<uint32_t*>(to)[1] = word;
  } else if constexpr (kForm.block == 16) {
    to[1] = as_halves(type.scale(from, first + 16));
  }
}

// A thread writes one byte of codes, and the first of a scale's block also that.
template <typename Type>
__device__ void split_weights(const Type& type, const uint8_t* from, int64_t count, uint8_t* codes, void* scales) {
  constexpr bool kBytes = Type::kForm.codes == Codes::kBytes;
  constexpr int kBlock = Type::kForm.block;
  const int64_t bytes = kBytes ? count : count / 2;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t at = first; at < bytes; at += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    // Nibbles: byte j of a block of 32 holds weights j and j + 16.
    const int64_t weight = kBytes ? at : at / 16 * 32 + at % 16;
    const uint8_t* block = from + weight / Type::kWeights * Type::kBytes;
    const auto i = static_cast<int>(weight % Type::kWeights);
    if constexpr (kBytes) {
      codes[at] = static_cast<uint8_t>(type.code(block, i));
      if (weight % kBlock == 0) static_cast<__half*>(scales)[weight / kBlock] = __float2half_rn(type.scale(block, i).x);
    } else {
      codes[at] = static_cast<uint8_t>((type.code(block, i) & 15) | (type.code(block, i + 16) & 15) << 4);
      if (at % 16 == 0) split_scales(type, block, i, at / 16, scales);
    }
  }
}

// Eight weights as bf16, to where 16 bytes may be written at once.
__device__ inline void write_eight(const float (&values)[8], __nv_bfloat16* to) {
  __nv_bfloat162 pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(pairs);
}

// The weights of 16 bytes of codes: 16, or a block of 32.
template <Codes kCodes>
__device__ void decode_piece(const uint4* codes, const void* scales, int block, int64_t piece, __nv_bfloat16* out) {
  const uint4 bits = __ldcs(codes + piece);
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  constexpr bool kBytes = kCodes == Codes::kBytes;
  constexpr int kEach = kBytes ? 16 : 32;
  const auto* halves = static_cast<const __half*>(scales);
  const auto* pairs = static_cast<const __half2*>(scales);
  float2 scale[2];  // of the first 16 weights, and of the others
  uint32_t fifths = 0;
  if (kBytes) {
    scale[0] = scale[1] = make_float2(__half2float(halves[piece * kEach / block]), 0);
  } else if (kCodes == Codes::kFives) {
    scale[0] = scale[1] = __half22float2(pairs[2 * piece]);
    fifths = static_cast<const uint32_t*>(scales)[2 * piece + 1];
  } else if (block == 16) {
    scale[0] = __half22float2(pairs[2 * piece]);
    scale[1] = __half22float2(pairs[2 * piece + 1]);
  } else {
    scale[0] = scale[1] = __half22float2(pairs[piece]);
  }
  __nv_bfloat16* to = out + piece * kEach;
#pragma unroll
  for (int eight = 0; eight < kEach / 8; ++eight) {
    float values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int at = eight * 8 + i;  // nibbles: weights from 16 on lie above those before
      const uint32_t byte = words[at % 16 / 4] >> 8 * (at % 4) & 255u;
      const uint32_t fifth = kCodes == Codes::kFives ? fifth_bits(fifths, at / 4) >> 8 * (at % 4) & 16u : 0;
      const float code = kBytes ? static_cast<float>(static_cast<int8_t>(byte))
                                : static_cast<float>((at < 16 ? byte & 15u : byte >> 4) | fifth);
      values[i] = kBytes ? scale[0].x * code : scale[at / 16].x * code + scale[at / 16].y;
    }
    write_eight(values, to + eight * 8);
  }
}

// Calls use(std::integral_constant) with the kind of codes.
template <typename Use>
void with_codes(Codes codes, Use use) {
  switch (codes) {
    case Codes::kNibbles: return use(std::integral_constant<Codes, Codes::kNibbles>{});
    case Codes::kFives: return use(std::integral_constant<Codes, Codes::kFives>{});
    case Codes::kBytes: return use(std::integral_constant<Codes, Codes::kBytes>{});
    case Codes::kNone: break;
  }
  EI_CHECK(false);
}

}  // namespace ei::kernels::cuda
