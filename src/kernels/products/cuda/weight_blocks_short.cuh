// Weight types whose blocks are of at most 128 weights.
#pragma once

#include "kernels/products/cuda/coded_weight.cuh"

namespace ei::kernels::cuda {

struct WeightF32 {
  static constexpr int kWeights = 1, kBytes = 4;
  __device__ static float weight(const uint8_t* block, int) { return *reinterpret_cast<const float*>(block); }
};
struct WeightF16 {
  static constexpr int kWeights = 1, kBytes = 2;
  __device__ static float weight(const uint8_t* block, int) { return half_at(block); }
};
struct WeightBF16 {
  static constexpr int kWeights = 1, kBytes = 2;
  __device__ static float weight(const uint8_t* block, int) {
    return to_float(*reinterpret_cast<const __nv_bfloat16*>(block));
  }
};

struct WeightQ4_0 : Coded<WeightQ4_0> {  // scale; nibbles of weights 0 to 15, those of 16 to 31 above them
  static constexpr int kWeights = 32, kBytes = 18;
  static constexpr CodeForm kForm{Codes::kNibbles, 32};
  __device__ static int code(const uint8_t* block, int i) { return nibble_of(block + 2, i); }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block), -8 * half_at(block)}; }
};
struct WeightQ4_1 : Coded<WeightQ4_1> {  // scale, least; nibbles as above
  static constexpr int kWeights = 32, kBytes = 20;
  static constexpr CodeForm kForm{Codes::kNibbles, 32};
  __device__ static int code(const uint8_t* block, int i) { return nibble_of(block + 4, i); }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block), half_at(block + 2)}; }
};
struct WeightQ5_0 : Coded<WeightQ5_0> {  // scale; a word of fifth bits; nibbles
  static constexpr int kWeights = 32, kBytes = 22;
  static constexpr CodeForm kForm{Codes::kFives, 32};
  __device__ static int code(const uint8_t* block, int i) {
    return nibble_of(block + 6, i) | (block[2 + i / 8] >> i % 8 & 1) << 4;
  }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block), -16 * half_at(block)}; }
};
struct WeightQ5_1 : Coded<WeightQ5_1> {  // scale, least; a word of fifth bits; nibbles
  static constexpr int kWeights = 32, kBytes = 24;
  static constexpr CodeForm kForm{Codes::kFives, 32};
  __device__ static int code(const uint8_t* block, int i) {
    return nibble_of(block + 8, i) | (block[4 + i / 8] >> i % 8 & 1) << 4;
  }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block), half_at(block + 2)}; }
};
struct WeightQ8_0 : Coded<WeightQ8_0> {  // scale; bytes
  static constexpr int kWeights = 32, kBytes = 34;
  static constexpr CodeForm kForm{Codes::kBytes, 32};
  __device__ static int code(const uint8_t* block, int i) { return static_cast<int8_t>(block[2 + i]); }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block), 0}; }
};

struct WeightQ1_0 : Coded<WeightQ1_0> {  // scale; bits: one means +scale, none -scale
  static constexpr int kWeights = 128, kBytes = 18;
  static constexpr CodeForm kForm{Codes::kNibbles, 32};
  __device__ static int code(const uint8_t* block, int i) { return block[2 + i / 8] >> i % 8 & 1; }
  __device__ static float2 scale(const uint8_t* block, int) { return {2 * half_at(block), -half_at(block)}; }
};
struct WeightQ2_0 : Coded<WeightQ2_0> {  // scale; pairs of bits, one too large
  static constexpr int kWeights = 64, kBytes = 18;
  static constexpr CodeForm kForm{Codes::kNibbles, 32};
  __device__ static int code(const uint8_t* block, int i) { return block[2 + i / 4] >> 2 * (i % 4) & 3; }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block), -half_at(block)}; }
};

// Sixteen levels that lie closer around zero.
__device__ inline int uneven_level(int nibble) {
  constexpr int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return levels[nibble];
}
struct WeightIQ4_NL : Coded<WeightIQ4_NL> {  // scale; nibbles
  static constexpr int kWeights = 32, kBytes = 18;
  static constexpr CodeForm kForm{Codes::kBytes, 32};
  __device__ static int code(const uint8_t* block, int i) { return uneven_level(nibble_of(block + 2, i)); }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block), 0}; }
};

// Twice a number in E2M1: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives.
__device__ inline int twice_e2m1(int nibble) {
  const int exponent = nibble >> 1 & 3;
  const int size = exponent == 0 ? nibble & 1 : (2 | (nibble & 1)) << (exponent - 1);
  return nibble < 8 ? size : -size;
}
// Scale in E8M0, an exponent alone; nibbles in E2M1. Not kept as codes: a half does not reach as far as such a scale.
struct WeightMXFP4 {
  static constexpr int kWeights = 32, kBytes = 17;
  __device__ static float weight(const uint8_t* block, int i) {
    const unsigned exponent = block[0];
    const unsigned half_scale = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;  // 2^(exponent - 128)
    return static_cast<float>(twice_e2m1(nibble_of(block + 1, i))) * __uint_as_float(half_scale);
  }
};
struct WeightNVFP4 : Coded<WeightNVFP4> {  // four scales in E4M3; eight bytes for each, nibbles in E2M1
  static constexpr int kWeights = 64, kBytes = 36;
  static constexpr CodeForm kForm{Codes::kBytes, 16};
  __device__ static int code(const uint8_t* block, int i) {
    const uint8_t byte = block[4 + i / 16 * 8 + i % 8];
    return twice_e2m1(i % 16 < 8 ? byte & 15 : byte >> 4);
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    const unsigned bits = block[i / 16];
    if (bits == 0x7f) return {0, 0};
    const unsigned exponent = bits >> 3 & 15;  // the sign is not looked at
    const auto mantissa = static_cast<float>(exponent == 0 ? bits & 7 : (bits & 7) + 8);
    // Half of mantissa / 8 * 2^(exponent - 7); exponent 0 counts as 1.
    const unsigned power = (exponent == 0 ? 1 : exponent) + 127 - 7 - 3 - 1;
    return {mantissa * __uint_as_float(power << 23), 0};
  }
};

}  // namespace ei::kernels::cuda
