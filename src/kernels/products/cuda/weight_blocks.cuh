// The weight types of model files that kernels decode. One struct per type: weights per block, bytes per block, weight
// i of a block; and for those that are kept for generation, the code of weight i and the scale (and offset) it shares.
#pragma once

#include <cstdint>

#include "kernels/cuda/elements.cuh"
#include "kernels/products/cuda/matvec_cuda.h"

namespace ei::kernels::cuda {

__device__ inline float half_at(const uint8_t* bytes) { return __half2float(*reinterpret_cast<const __half*>(bytes)); }

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

// weight = scale * code + offset
template <typename Type>
struct Coded {
  __device__ static float weight(const uint8_t* block, int i) {
    const float2 scale = Type::scale(block, i);
    return scale.x * static_cast<float>(Type::code(block, i)) + scale.y;
  }
};

struct WeightQ4_0 : Coded<WeightQ4_0> {  // scale; nibbles of weights 0 to 15, those of 16 to 31 above them
  static constexpr int kWeights = 32, kBytes = 18;
  static constexpr CodeForm kForm{Codes::kNibbles, 32};
  __device__ static int code(const uint8_t* block, int i) {
    return i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4;
  }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block), -8 * half_at(block)}; }
};
struct WeightQ4_1 : Coded<WeightQ4_1> {  // scale, least; nibbles as above
  static constexpr int kWeights = 32, kBytes = 20;
  static constexpr CodeForm kForm{Codes::kNibbles, 32};
  __device__ static int code(const uint8_t* block, int i) {
    return i < 16 ? block[4 + i] & 15 : block[4 + i - 16] >> 4;
  }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block), half_at(block + 2)}; }
};
struct WeightQ8_0 : Coded<WeightQ8_0> {  // scale; bytes
  static constexpr int kWeights = 32, kBytes = 34;
  static constexpr CodeForm kForm{Codes::kBytes, 32};
  __device__ static int code(const uint8_t* block, int i) { return static_cast<int8_t>(block[2 + i]); }
  __device__ static float2 scale(const uint8_t* block, int) { return {half_at(block), 0}; }
};
struct WeightQ4_K : Coded<WeightQ4_K> {  // scale, scale of the leasts; eight pairs of six bits; nibbles in runs of 64
  static constexpr int kWeights = 256, kBytes = 144;
  static constexpr CodeForm kForm{Codes::kNibbles, 32};
  __device__ static int code(const uint8_t* block, int i) {
    const uint8_t byte = block[16 + 32 * (i / 64) + i % 32];
    return i % 64 < 32 ? byte & 15 : byte >> 4;
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    const uint8_t* pairs = block + 4;
    const int pair = i / 32;
    const int scale = pair < 4 ? pairs[pair] & 63 : (pairs[pair + 4] & 15) | (pairs[pair - 4] >> 6) << 4;
    const int least = pair < 4 ? pairs[pair + 4] & 63 : (pairs[pair + 4] >> 4) | (pairs[pair] >> 6) << 4;
    return {half_at(block) * static_cast<float>(scale), -half_at(block + 2) * static_cast<float>(least)};
  }
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
    const int high = block[128 + 32 * half + i % 32] >> (2 * quarter) & 3;
    return (low | high << 4) - 32;
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    return {half_at(block + 208) * static_cast<float>(static_cast<int8_t>(block[192 + i / 16])), 0};
  }
};

// Calls use(Type{}) with the struct of a ggml type; false when there is none.
template <typename Use>
bool with_coded_type(uint32_t ggml_type, Use use) {
  switch (ggml_type) {
    case 2: use(WeightQ4_0{}); return true;
    case 3: use(WeightQ4_1{}); return true;
    case 8: use(WeightQ8_0{}); return true;
    case 12: use(WeightQ4_K{}); return true;
    case 14: use(WeightQ6_K{}); return true;
    default: return false;
  }
}
template <typename Use>
bool with_weight_type(uint32_t ggml_type, Use use) {
  switch (ggml_type) {
    case 0: use(WeightF32{}); return true;
    case 1: use(WeightF16{}); return true;
    case 30: use(WeightBF16{}); return true;
    default: return with_coded_type(ggml_type, use);
  }
}

}  // namespace ei::kernels::cuda
