// Weight types whose blocks are of 256 weights, of two kinds: an even grid with a scale for every 16 or 32, and codes
// in base three.
#pragma once

#include "kernels/products/cuda/weight_blocks_short.cuh"

namespace ei::kernels::cuda {

// Weight i of 128 that lie in 32 bytes: pairs of bits of all 32, then the next.
__device__ inline int bit_pair(const uint8_t* bytes, int i) {
  return bytes[i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3;
}
// Runs of 64 in 32 bytes: the low halves, then the high ones.
__device__ inline int nibble_in_run(const uint8_t* bytes, int i) {
  const uint8_t byte = bytes[32 * (i / 64) + i % 32];
  return i % 64 < 32 ? byte & 15 : byte >> 4;
}

// A block begins with scale, scale of the leasts, and eight pairs of six bits.
__device__ inline float2 scale_and_least(const uint8_t* block, int i) {
  const uint8_t* pairs = block + 4;
  const int pair = i / 32;
  const int scale = pair < 4 ? pairs[pair] & 63 : (pairs[pair + 4] & 15) | (pairs[pair - 4] >> 6) << 4;
  const int least = pair < 4 ? pairs[pair + 4] & 63 : (pairs[pair + 4] >> 4) | (pairs[pair] >> 6) << 4;
  return {half_at(block) * static_cast<float>(scale), -half_at(block + 2) * static_cast<float>(least)};
}

struct WeightQ2_K : Coded<WeightQ2_K> {  // 16 bytes of scale and least; pairs of bits; scale and scale of the leasts
  static constexpr int kWeights = 256, kBytes = 84;
  static constexpr CodeForm kForm{Codes::kNibbles, 16};
  __device__ static int code(const uint8_t* block, int i) { return bit_pair(block + 16, i); }
  __device__ static float2 scale(const uint8_t* block, int i) {
    const int both = block[i / 16];
    return {half_at(block + 80) * static_cast<float>(both & 15), -half_at(block + 82) * static_cast<float>(both >> 4)};
  }
};
struct WeightQ3_K : Coded<WeightQ3_K> {  // 32 bytes of third bits; pairs of bits; 16 scales of six bits; their scale
  static constexpr int kWeights = 256, kBytes = 110;
  static constexpr CodeForm kForm{Codes::kNibbles, 16};
  __device__ static int code(const uint8_t* block, int i) {
    return bit_pair(block + 32, i) | (block[i % 32] >> i / 32 & 1) << 2;
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    const uint8_t* scales = block + 96;  // low halves of 0 to 7 and, above them, 8 to 15; then pairs of high bits
    const int at = i / 16;
    const int low = at < 8 ? scales[at] & 15 : scales[at - 8] >> 4;
    const int high = scales[8 + at % 4] >> 2 * (at / 4) & 3;
    const float scale = half_at(block + 108) * static_cast<float>((low | high << 4) - 32);
    return {scale, -4 * scale};
  }
};
struct WeightQ4_K : Coded<WeightQ4_K> {  // scales and leasts; nibbles in runs of 64
  static constexpr int kWeights = 256, kBytes = 144;
  static constexpr CodeForm kForm{Codes::kNibbles, 32};
  __device__ static int code(const uint8_t* block, int i) { return nibble_in_run(block + 16, i); }
  __device__ static float2 scale(const uint8_t* block, int i) { return scale_and_least(block, i); }
};
struct WeightQ5_K : Coded<WeightQ5_K> {  // scales and leasts; 32 bytes of fifth bits; nibbles in runs of 64
  static constexpr int kWeights = 256, kBytes = 176;
  static constexpr CodeForm kForm{Codes::kFives, 32};
  __device__ static int code(const uint8_t* block, int i) {
    return nibble_in_run(block + 48, i) | (block[16 + i % 32] >> i / 32 & 1) << 4;
  }
  __device__ static float2 scale(const uint8_t* block, int i) { return scale_and_least(block, i); }
};
struct WeightQ6_K
    : Coded<WeightQ6_K> {  // 128 bytes of low nibbles, 64 of high bit pairs, 16 scales, the scale of these
  static constexpr int kWeights = 256, kBytes = 210;
  static constexpr CodeForm kForm{Codes::kBytes, 16};
  __device__ static int code(const uint8_t* block, int i) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    const uint8_t byte = block[64 * half + i % 32 + quarter % 2 * 32];
    const int low = quarter < 2 ? byte & 15 : byte >> 4;
    return (low | bit_pair(block + 128, i) << 4) - 32;
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    return {half_at(block + 208) * static_cast<float>(static_cast<int8_t>(block[192 + i / 16])), 0};
  }
};
struct WeightIQ4_XS : Coded<WeightIQ4_XS> {  // scale; eight scales of six bits, high bits first; nibbles of 32 weights
  static constexpr int kWeights = 256, kBytes = 136;
  static constexpr CodeForm kForm{Codes::kBytes, 32};
  __device__ static int code(const uint8_t* block, int i) {
    return uneven_level(nibble_of(block + 8 + i / 32 * 16, i % 32));
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    const int at = i / 32;
    const int scale = (block[4 + at / 2] >> 4 * (at % 2) & 15) | (word16_at(block + 2) >> 2 * at & 3) << 4;
    return {half_at(block) * static_cast<float>(scale - 32), 0};
  }
};

// 48 bytes of five codes, 4 of four, the scale. A byte is a fraction of 256 in base three: its first digit is what
// three times it has above 256, and the next ones follow by multiplying.
struct WeightTQ1_0 : Coded<WeightTQ1_0> {
  static constexpr int kWeights = 256, kBytes = 54;
  static constexpr CodeForm kForm{Codes::kNibbles, 32};
  __device__ static int code(const uint8_t* block, int i) {
    // The first digits of 32 bytes, the second ones, ..., of 16 bytes, of four.
    const int first = i < 160 ? 0 : i < 240 ? 160 : 240;
    const int bytes = i < 160 ? 32 : i < 240 ? 16 : 4;
    unsigned fraction = block[first / 5 + (i - first) % bytes];
    for (int digit = (i - first) / bytes; digit > 0; --digit) fraction = fraction * 3 & 255;
    return static_cast<int>(fraction * 3 >> 8);
  }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block + 52), -half_at(block + 52)}; }
};
struct WeightTQ2_0 : Coded<WeightTQ2_0> {  // pairs of bits, one too large; scale
  static constexpr int kWeights = 256, kBytes = 66;
  static constexpr CodeForm kForm{Codes::kNibbles, 32};
  __device__ static int code(const uint8_t* block, int i) { return bit_pair(block, i); }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block + 64), -half_at(block + 64)}; }
};

}  // namespace ei::kernels::cuda
