// The decode half of the bf16 ARM variant (contract in flash.h), by BFDOT: eight products of bf16 into four fp32 lanes.
// Rows of K are used as they lie; two rows of V are interleaved, so that a lane adds both keys. (BFMMLA would need four
// rows interleaved, and the shuffles then cost more than the products.) Unnamed namespace: see flash.h.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/neon_decode.h"

namespace ei::kernels {
namespace {

struct NeonBf16Decode {
  using Element = uint16_t;
  static int padded_rows(int rows) { return rows; }

  static void pack_queries(const float* const* rows, int count, int dim, float scale, uint16_t* to) {
    for (int row = 0; row < count; ++row) {
      for (int d = 0; d < dim; d += 4) to_bf16(vmulq_n_f32(vld1q_f32(rows[row] + d), scale), to + row * dim + d);
    }
  }

  static void scores(const uint16_t* q, int rows, const void* keys, int count, DType, int dim, float* s, int s_stride) {
    for_rows(rows, [&](int row, auto number) {
      dots<number()>(q + row * dim, static_cast<const uint16_t*>(keys), count, dim, s + row * s_stride, s_stride);
    });
  }

  static float max(const float* s, int count) { return NeonDecode::max(s, count); }
  static float exp_sum(float* s, int count, float max) { return exp_sum_neon<4>(s, count, max); }

  static void accumulate(const float* p, int p_stride, int rows, const void* values, int count, DType, int dim,
                         float* out) {
    for (int begin = 0; begin < count; begin += kMaxKeys) {
      const uint16_t* from = static_cast<const uint16_t*>(values) + int64_t{begin} * dim;
      const int keys = std::min(kMaxKeys, count - begin);
      for_rows(rows, [&](int row, auto number) {
        weigh<number()>(p + row * p_stride + begin, p_stride, from, keys, dim, out + row * dim);
      });
    }
  }

 private:
  static constexpr int kMaxKeys = 128;

  static bfloat16x8_t load(const uint16_t* from) { return vreinterpretq_bf16_u16(vld1q_u16(from)); }
  static void to_bf16(float32x4_t lanes, uint16_t* to) { vst1_u16(to, vreinterpret_u16_bf16(vcvt_bf16_f32(lanes))); }

  // Calls use(first row, number of rows as a constant) for groups of at most four rows.
  template <typename Use>
  static void for_rows(int rows, Use use) {
    int row = 0;
    for (; row + 4 <= rows; row += 4) use(row, std::integral_constant<int, 4>{});
    if (rows - row == 3) use(row, std::integral_constant<int, 3>{});
    if (rows - row == 2) use(row, std::integral_constant<int, 2>{});
    if (rows - row == 1) use(row, std::integral_constant<int, 1>{});
  }

  // Scores of kRows query rows, four keys at a time; behind the last key it is repeated.
  template <int kRows>
  static void dots(const uint16_t* q, const uint16_t* keys, int count, int dim, float* s, int s_stride) {
    for (int key = 0; key < count; key += 4) {
      const uint16_t* k[4];
      for (int j = 0; j < 4; ++j) k[j] = keys + int64_t{std::min(key + j, count - 1)} * dim;
      float32x4_t acc[kRows][4];
      for (auto& row : acc) {
        for (auto& lanes : row) lanes = vdupq_n_f32(0);
      }
      for (int d = 0; d < dim; d += 8) {
        bfloat16x8_t loaded[4];
        for (int j = 0; j < 4; ++j) loaded[j] = load(k[j] + d);
        for (int row = 0; row < kRows; ++row) {
          const bfloat16x8_t query = load(q + row * dim + d);
          for (int j = 0; j < 4; ++j) acc[row][j] = vbfdotq_f32(acc[row][j], query, loaded[j]);
        }
      }
      for (int row = 0; row < kRows; ++row) {
        float* to = s + row * s_stride + key;
        const float32x4_t four = vpaddq_f32(vpaddq_f32(acc[row][0], acc[row][1]), vpaddq_f32(acc[row][2], acc[row][3]));
        if (key + 4 <= count) {
          vst1q_f32(to, four);
        } else {
          float line[4];
          vst1q_f32(line, four);
          std::memcpy(to, line, static_cast<size_t>(count - key) * sizeof(float));
        }
      }
    }
  }

  // out[kRows, dim] += p[kRows, count] values[count, dim], in columns that keep about sixteen sums in flight.
  template <int kRows>
  static void weigh(const float* p, int p_stride, const uint16_t* values, int count, int dim, float* out) {
    uint16_t weights[kRows][kMaxKeys];
    for (int row = 0; row < kRows; ++row) {
      int key = 0;
      for (; key + 4 <= count; key += 4) to_bf16(vld1q_f32(p + row * p_stride + key), weights[row] + key);
      for (; key < count; ++key) weights[row][key] = f32_to_bf16(p[row * p_stride + key]);
      for (; key % 8 != 0; ++key) weights[row][key] = 0;
    }
    constexpr int kWide = kRows == 1 ? 8 : kRows == 2 ? 4 : 2;
    int d = 0;
    for (; d + 8 * kWide <= dim; d += 8 * kWide) weigh_columns<kRows, kWide>(weights, values + d, count, dim, out + d);
    for (; d < dim; d += 8) weigh_columns<kRows, 1>(weights, values + d, count, dim, out + d);
  }

  template <int kRows, int kWide>
  static void weigh_columns(const uint16_t (&weights)[kRows][kMaxKeys], const uint16_t* values, int count, int dim,
                            float* out) {
    float32x4_t acc[kRows][2 * kWide];
    for (int row = 0; row < kRows; ++row) {
      for (int j = 0; j < 2 * kWide; ++j) acc[row][j] = vld1q_f32(out + row * dim + 4 * j);
    }
    const uint16_t* last = values + int64_t{count - 1} * dim;
    const uint16_t* v = values;
    for (int key = 0; key < count; key += 8) {
      bfloat16x8_t weight[kRows];
      for (int row = 0; row < kRows; ++row) weight[row] = load(weights[row] + key);
      weigh_two<kRows, kWide, 0>(weight, v, last, dim, acc);
      weigh_two<kRows, kWide, 1>(weight, v, last, dim, acc);
      weigh_two<kRows, kWide, 2>(weight, v, last, dim, acc);
      weigh_two<kRows, kWide, 3>(weight, v, last, dim, acc);
    }
    for (int row = 0; row < kRows; ++row) {
      for (int j = 0; j < 2 * kWide; ++j) vst1q_f32(out + row * dim + 4 * j, acc[row][j]);
    }
  }

  // Two keys; behind the last one it is repeated, with weight 0.
  template <int kRows, int kWide, int kPair>
  static void weigh_two(const bfloat16x8_t (&weight)[kRows], const uint16_t*& v, const uint16_t* last, int dim,
                        float32x4_t (&acc)[kRows][2 * kWide]) {
    const uint16_t* v0 = std::min(v, last);
    const uint16_t* v1 = std::min(v + dim, last);
    v += int64_t{2} * dim;
    for (int wide = 0; wide < kWide; ++wide) {
      const uint16x8_t low = vld1q_u16(v0 + 8 * wide);
      const uint16x8_t high = vld1q_u16(v1 + 8 * wide);
      const bfloat16x8_t first = vreinterpretq_bf16_u16(vzip1q_u16(low, high));
      const bfloat16x8_t second = vreinterpretq_bf16_u16(vzip2q_u16(low, high));
      for (int row = 0; row < kRows; ++row) {
        acc[row][2 * wide] = vbfdotq_laneq_f32(acc[row][2 * wide], first, weight[row], kPair);
        acc[row][2 * wide + 1] = vbfdotq_laneq_f32(acc[row][2 * wide + 1], second, weight[row], kPair);
      }
    }
  }
};

}  // namespace
}  // namespace ei::kernels
