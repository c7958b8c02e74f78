// Weight types whose codes are indices: each stands for four or eight neighbours, which lie in a table of the format.
// Blocks of 256; a scale for every 16 or 32 weights; kept as bytes, since what the tables hold fits in them.
#pragma once

#include "kernels/products/cuda/coded_weight.cuh"

namespace ei::kernels::cuda {

// Seven signs and their parity as the eighth, for weight j of eight: -1 or 1.
__device__ inline int sign_of_seven(unsigned bits, int j) {
  const auto sign = j < 7 ? bits >> j & 1 : static_cast<unsigned>(__popc(bits & 127)) & 1;
  return sign != 0 ? -1 : 1;
}
__device__ inline int sign_of_eight(unsigned bits, int j) { return (bits >> j & 1) != 0 ? -1 : 1; }

// scale * (bits + 1/2) / parts
__device__ inline float2 scale_and_a_half(float scale, unsigned bits, int parts) {
  return {scale * (static_cast<float>(bits) + 0.5f) / static_cast<float>(parts), 0};
}

// scale; for 32 weights four indices, four times seven signs, and four bits of scale
struct WeightIQ2_XXS : Coded<WeightIQ2_XXS> {
  static constexpr int kWeights = 256, kBytes = 66;
  static constexpr CodeForm kForm{Codes::kBytes, 32};
  const int8_t* grid = nullptr;  // [256, 8]
  __device__ int code(const uint8_t* block, int i) const {
    const uint8_t* part = block + 2 + i / 32 * 8;
    const unsigned signs = word32_at(part + 4) >> 7 * (i % 32 / 8);
    return grid[part[i % 32 / 8] * 8 + i % 8] * sign_of_seven(signs & 127, i % 8);
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    return scale_and_a_half(half_at(block), word32_at(block + 2 + i / 32 * 8 + 4) >> 28, 4);
  }
};
// scale; words of nine bits of index and seven signs; four bits of scale for 16 weights
struct WeightIQ2_XS : Coded<WeightIQ2_XS> {
  static constexpr int kWeights = 256, kBytes = 74;
  static constexpr CodeForm kForm{Codes::kBytes, 16};
  const int8_t* grid = nullptr;  // [512, 8]
  __device__ int code(const uint8_t* block, int i) const {
    const int word = word16_at(block + 2 + i / 8 * 2);
    return grid[(word & 511) * 8 + i % 8] * sign_of_seven(static_cast<unsigned>(word) >> 9, i % 8);
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    return scale_and_a_half(half_at(block), block[66 + i / 32] >> i % 32 / 16 * 4 & 15, 4);
  }
};
// scale; low bytes of 32 indices; 32 bytes of signs; two high bits of each index; scales as above
struct WeightIQ2_S : Coded<WeightIQ2_S> {
  static constexpr int kWeights = 256, kBytes = 82;
  static constexpr CodeForm kForm{Codes::kBytes, 16};
  const int8_t* grid = nullptr;  // [1024, 8]
  __device__ int code(const uint8_t* block, int i) const {
    const int index = block[2 + i / 8] | (block[66 + i / 32] >> i % 32 / 8 * 2 & 3) << 8;
    return grid[index * 8 + i % 8] * sign_of_eight(block[34 + i / 8], i % 8);
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    return scale_and_a_half(half_at(block), block[74 + i / 32] >> i % 32 / 16 * 4 & 15, 4);
  }
};
// scale; 64 indices; for 32 weights four times seven signs and four bits of scale
struct WeightIQ3_XXS : Coded<WeightIQ3_XXS> {
  static constexpr int kWeights = 256, kBytes = 98;
  static constexpr CodeForm kForm{Codes::kBytes, 32};
  const int8_t* grid = nullptr;  // [256, 4]
  __device__ int code(const uint8_t* block, int i) const {
    const unsigned signs = word32_at(block + 66 + i / 32 * 4) >> 7 * (i % 32 / 8);
    return grid[block[2 + i / 4] * 4 + i % 4] * sign_of_seven(signs & 127, i % 8);
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    return scale_and_a_half(half_at(block), word32_at(block + 66 + i / 32 * 4) >> 28, 2);
  }
};
// scale; low bytes of 64 indices; their high bits; 32 bytes of signs; four bits of scale for 32 weights
struct WeightIQ3_S : Coded<WeightIQ3_S> {
  static constexpr int kWeights = 256, kBytes = 110;
  static constexpr CodeForm kForm{Codes::kBytes, 32};
  const int8_t* grid = nullptr;  // [512, 4]
  __device__ int code(const uint8_t* block, int i) const {
    const int index = block[2 + i / 4] | (block[66 + i / 32] >> i % 32 / 4 & 1) << 8;
    return grid[index * 4 + i % 4] * sign_of_eight(block[74 + i / 8], i % 8);
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    const int bits = block[106 + i / 64] >> i % 64 / 32 * 4 & 15;
    return {half_at(block) * static_cast<float>(1 + 2 * bits), 0};
  }
};

// Those of about one bit have -1, 0 and 1 in their table, and an eighth more or less of all of a group. Codes count in
// eighths.
// scale; low bytes of 32 indices; for 32 weights four times three high bits, three bits of scale, the eighth's sign
struct WeightIQ1_S : Coded<WeightIQ1_S> {
  static constexpr int kWeights = 256, kBytes = 50;
  static constexpr CodeForm kForm{Codes::kBytes, 32};
  const int8_t* grid = nullptr;  // [2048, 8]
  __device__ int code(const uint8_t* block, int i) const {
    const int word = word16_at(block + 34 + i / 32 * 2);
    const int index = block[2 + i / 8] | (word >> i % 32 / 8 * 3 & 7) << 8;
    return 8 * grid[index * 8 + i % 8] + ((word & 0x8000) != 0 ? -1 : 1);
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    const int bits = word16_at(block + 34 + i / 32 * 2) >> 12 & 7;
    return {half_at(block) * static_cast<float>(1 + 2 * bits) / 8, 0};
  }
};
// low bytes of 32 indices; for each half a byte, three high bits and the eighth's sign; four words of four times three
// bits of scale, each for 16 weights, and four bits of the scale of them all
struct WeightIQ1_M : Coded<WeightIQ1_M> {
  static constexpr int kWeights = 256, kBytes = 56;
  static constexpr CodeForm kForm{Codes::kBytes, 16};
  const int8_t* grid = nullptr;  // [2048, 8], the same
  __device__ int code(const uint8_t* block, int i) const {
    const int high = block[32 + i / 16] >> i % 16 / 8 * 4 & 15;
    return 8 * grid[(block[i / 8] | (high & 7) << 8) * 8 + i % 8] + (high > 7 ? -1 : 1);
  }
  __device__ static float2 scale(const uint8_t* block, int i) {
    __half_raw whole;
    whole.x = 0;
    for (int word = 0; word < 4; ++word)
      whole.x = static_cast<unsigned short>(whole.x | (block[49 + word * 2] >> 4) << word * 4);
    const int bits = word16_at(block + 48 + i / 64 * 2) >> i % 64 / 16 * 3 & 7;
    return {__half2float(__half(whole)) * static_cast<float>(1 + 2 * bits) / 8, 0};
  }
};

}  // namespace ei::kernels::cuda
