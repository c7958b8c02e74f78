// Dot products of sixteen-bit integers on ARM CPUs that multiply bytes (SDOT): x = 256 high + low, both signed bytes.
// Of the four products of two such numbers low * low is left out, below what a rounding to half precision loses; sums
// are exact. Per product 3/16 of an instruction, where fp32 needs a quarter. Unnamed namespace: see
// attention/cpu/flash.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace ei::kernels {
namespace {

inline constexpr int kWideRows = 8;  // in a panel: [dim / 4, high then low, row, 4 dims]
inline constexpr float kWideLargest = 32512;

// Eight elements of a row from dim `d` on, a multiple of eight; they are at most kWideLargest.
inline void store_wide(float32x4_t first, float32x4_t second, int row, int d, int8_t* panel) {
  const int16x8_t whole = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(first)), vmovn_s32(vcvtnq_s32_f32(second)));
  const uint32x2_t high = vreinterpret_u32_s8(vrshrn_n_s16(whole, 8));
  const uint32x2_t low = vreinterpret_u32_s8(vmovn_s16(whole));
  auto* to = reinterpret_cast<uint32_t*>(panel) + d / 4 * 2 * kWideRows + row;
  vst1_lane_u32(to, high, 0);
  vst1_lane_u32(to + kWideRows, low, 0);
  vst1_lane_u32(to + 2 * kWideRows, high, 1);
  vst1_lane_u32(to + 3 * kWideRows, low, 1);
}

struct WideSums {
  int32x4_t at[kWideRows][2];  // [row of a, four rows of b]
};

// Adds a b^T over `dim`: parts of a and of b, kHigh or kLow.
inline constexpr int kHigh = 0;
inline constexpr int kLow = 4 * kWideRows;
template <int kA, int kB>
inline __attribute__((always_inline)) void add_bytes(const int8_t* a, const int8_t* b, WideSums& sums) {
  const int8x16_t first = vld1q_s8(a + kA);
  const int8x16_t second = vld1q_s8(a + kA + 16);
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    const int8x16_t rows = vld1q_s8(b + kB + 16 * v);
    sums.at[0][v] = vdotq_laneq_s32(sums.at[0][v], rows, first, 0);
    sums.at[1][v] = vdotq_laneq_s32(sums.at[1][v], rows, first, 1);
    sums.at[2][v] = vdotq_laneq_s32(sums.at[2][v], rows, first, 2);
    sums.at[3][v] = vdotq_laneq_s32(sums.at[3][v], rows, first, 3);
    sums.at[4][v] = vdotq_laneq_s32(sums.at[4][v], rows, second, 0);
    sums.at[5][v] = vdotq_laneq_s32(sums.at[5][v], rows, second, 1);
    sums.at[6][v] = vdotq_laneq_s32(sums.at[6][v], rows, second, 2);
    sums.at[7][v] = vdotq_laneq_s32(sums.at[7][v], rows, second, 3);
  }
}

// The products of two panels, divided by 256; dim is at most 256, or they would overflow.
inline __attribute__((always_inline)) WideSums multiply_wide(const int8_t* a, const int8_t* b, int dim) {
  constexpr int kStep = 8 * kWideRows;  // bytes of four dims
  WideSums sums;
  for (auto& row : sums.at) row[0] = row[1] = vdupq_n_s32(0);
  for (int at = 0; at < dim / 4 * kStep; at += kStep) add_bytes<kHigh, kHigh>(a + at, b + at, sums);
  for (auto& row : sums.at) {
    row[0] = vshlq_n_s32(row[0], 8);
    row[1] = vshlq_n_s32(row[1], 8);
  }
  for (int at = 0; at < dim / 4 * kStep; at += kStep) {
    add_bytes<kHigh, kLow>(a + at, b + at, sums);
    add_bytes<kLow, kHigh>(a + at, b + at, sums);
  }
  return sums;
}

}  // namespace
}  // namespace ei::kernels
