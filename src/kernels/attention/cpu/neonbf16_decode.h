// The decode half of the bf16 ARM variant (contract in flash.h). Rows by four use BFMMLA: two rows of four bf16 times
// two rows of four, added to a 2x2 of fp32 lanes. Their queries are packed in pairs; two rows of K become an operand by
// swapping halves, four rows of V by a transposition. The one to three rows behind them meet K by BFDOT, which takes
// rows as they lie. Unnamed namespace: see flash.h.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/attention/cpu/neon_decode.h"
#include "kernels/attention/cpu/neonbf16_three.h"

namespace ei::kernels {
namespace {

struct NeonBf16Decode {
  using Element = uint16_t;
  static int padded_rows(int rows) { return rows; }

  // Rows by four as [2 row pairs, dim / 4, 2 rows, 4 dims]; the one to three behind them as they are.
  static void pack_queries(const float* const* rows, int count, int dim, float scale, uint16_t* to) {
    for (int row = 0; row < count; ++row) {
      const bool paired = row < count / 4 * 4;
      uint16_t* at = paired ? to + row / 2 * 2 * dim + row % 2 * 4 : to + row * dim;
      for (int d = 0; d < dim; d += 4)
        vst1_u16(at + (paired ? 2 * d : d), to_bf16(vmulq_n_f32(vld1q_f32(rows[row] + d), scale)));
    }
  }

  static void scores(const uint16_t* q, int rows, const void* keys, int count, DType, int dim, float* s, int s_stride,
                     const void* ahead) {
    const auto* from = static_cast<const uint16_t*>(keys);
    const auto* next = static_cast<const uint16_t*>(ahead);
    with_dim(dim, [&](auto d) {
      for (; rows >= 4; rows -= 4, q += 4 * dim, s += 4 * s_stride) dots_of_four(q, from, count, d, s, s_stride, next);
      if (rows == 3) dots<3>(q, from, count, d, s, s_stride, next);
      if (rows == 2) dots<2>(q, from, count, d, s, s_stride, next);
      if (rows == 1) dots<1>(q, from, count, d, s, s_stride, next);
    });
  }

  static float max(const float* s, int count) { return NeonDecode::max(s, count); }
  static float exp_sum(float* s, int count, float max) { return exp_sum_neon<RoughExp2>(s, count, max); }

  static void accumulate(const float* p, int p_stride, int rows, const void* values, int count, DType, int dim,
                         float* out, const void* ahead) {
    for (int begin = 0; begin < count; begin += kMaxKeys) {
      const int64_t at = int64_t{begin} * dim;
      const uint16_t* from = static_cast<const uint16_t*>(values) + at;
      const uint16_t* next = static_cast<const uint16_t*>(ahead) + at;
      const int keys = std::min(kMaxKeys, count - begin);
      for_pairs(rows, [&](int row, auto pairs) {
        const float* weights = p + row * p_stride + begin;
        float* to = out + row * dim;
        const int done = rows - row == 3 && dim % kThreeColumns == 0 ? keys / 8 * 8 : 0;
        if (done > 0) weigh_three(weights, p_stride, from, done, dim, to, next);
        if (done == keys) return;
        with_dim(dim, [&](auto d) {
          weigh<pairs()>(weights + done, p_stride, rows - row, from + done * dim, keys - done, d, to,
                         next + done * dim);
        });
      });
    }
  }

 private:
  // Into the L2 cache: the L1 cache has too few requests in flight to wait for memory, and would stall the loop.
  static void fetch(const uint16_t* at) { __builtin_prefetch(at, 0, 2); }

  static constexpr int kMaxKeys = kThreeKeys;

  static bfloat16x8_t load(const uint16_t* from) { return vreinterpretq_bf16_u16(vld1q_u16(from)); }
  static uint16x4_t to_bf16(float32x4_t lanes) { return vreinterpret_u16_bf16(vcvt_bf16_f32(lanes)); }

  // The usual sizes as constants: row addresses then need no registers.
  template <typename Use>
  static void with_dim(int dim, Use use) {
    if (dim == 64) return use(std::integral_constant<int, 64>{});
    if (dim == 128) return use(std::integral_constant<int, 128>{});
    use(dim);
  }

  // Calls use(first row, number of row pairs as a constant) for groups of at most two pairs.
  template <typename Use>
  static void for_pairs(int rows, Use use) {
    int row = 0;
    for (; rows - row > 2; row += 4) use(row, std::integral_constant<int, 2>{});
    if (row < rows) use(row, std::integral_constant<int, 1>{});
  }

  // Scores of kRows query rows, eight keys at a time, by BFDOT; behind the last key it is repeated.
  template <int kRows, typename Dim>
  static void dots(const uint16_t* q, const uint16_t* keys, int count, Dim dim, float* s, int s_stride,
                   const uint16_t* ahead) {
    constexpr int kKeys = 8;
    for (int key = 0; key < count; key += kKeys) {
      const uint16_t* k[kKeys];
      for (int j = 0; j < kKeys; ++j) k[j] = keys + int64_t{key + j} * dim;
      if (count - key < kKeys) {
        for (int j = count - key; j < kKeys; ++j) k[j] = k[count - key - 1];
      }
      float32x4_t acc[kRows][kKeys];
      for (auto& row : acc) {
        for (auto& lanes : row) lanes = vdupq_n_f32(0);
      }
      for (int d = 0; d < dim; d += 8) {
        for (int j = 0; j < kKeys; j += 4) fetch(ahead + key * dim + kKeys * d + 8 * j);
        bfloat16x8_t query[kRows];
        for (int row = 0; row < kRows; ++row) query[row] = load(q + row * dim + d);
        for (int j = 0; j < kKeys; ++j) {
          const bfloat16x8_t loaded = load(k[j] + d);
          for (int row = 0; row < kRows; ++row) acc[row][j] = vbfdotq_f32(acc[row][j], query[row], loaded);
        }
      }
      const int some = std::min(kKeys, count - key);
      for (int row = 0; row < kRows; ++row) {
        float line[kKeys];
        float* to = s + row * s_stride + key;
        float* at = some == kKeys ? to : line;
        for (int j = 0; j < kKeys; j += 4) {
          vst1q_f32(at + j,
                    vpaddq_f32(vpaddq_f32(acc[row][j], acc[row][j + 1]), vpaddq_f32(acc[row][j + 2], acc[row][j + 3])));
        }
        if (some < kKeys) std::memcpy(to, line, static_cast<size_t>(some) * sizeof(float));
      }
    }
  }

  // The same of four rows, by BFMMLA: two rows of K become an operand by swapping halves.
  template <typename Dim>
  static void dots_of_four(const uint16_t* q, const uint16_t* keys, int count, Dim dim, float* s, int s_stride,
                           const uint16_t* ahead) {
    for (int key = 0; key < count; key += 8) {
      const uint16_t* k[8];
      for (int j = 0; j < 8; ++j) k[j] = keys + int64_t{key + j} * dim;
      if (count - key < 8) {
        for (int j = count - key; j < 8; ++j) k[j] = k[count - key - 1];
      }
      float32x4_t acc[2][2][4];  // [half of the dims, row pair, key pair]
      for (auto& half : acc) {
        for (auto& pair : half) {
          for (auto& lanes : pair) lanes = vdupq_n_f32(0);
        }
      }
      for (int d = 0; d < dim; d += 8) {
        fetch(ahead + key * dim + 8 * d);
        fetch(ahead + key * dim + 8 * d + 32);
        for (int j = 0; j < 4; ++j) {
          const uint64x2_t even = vreinterpretq_u64_u16(vld1q_u16(k[2 * j] + d));
          const uint64x2_t odd = vreinterpretq_u64_u16(vld1q_u16(k[2 * j + 1] + d));
          const bfloat16x8_t low = vreinterpretq_bf16_u64(vzip1q_u64(even, odd));
          const bfloat16x8_t high = vreinterpretq_bf16_u64(vzip2q_u64(even, odd));
          for (int pair = 0; pair < 2; ++pair) {
            const uint16_t* query = q + 2 * (pair * dim + d);
            acc[0][pair][j] = vbfmmlaq_f32(acc[0][pair][j], load(query), low);
            acc[1][pair][j] = vbfmmlaq_f32(acc[1][pair][j], load(query + 8), high);
          }
        }
      }
      for (int pair = 0; pair < 2; ++pair) {
        float64x2_t two[4];  // [row 0, row 1] of two keys
        for (int j = 0; j < 4; ++j) two[j] = vreinterpretq_f64_f32(vaddq_f32(acc[0][pair][j], acc[1][pair][j]));
        float* to = s + 2 * pair * s_stride + key;
        const int some = std::min(8, count - key);
        store(vzip1q_f64(two[0], two[1]), vzip1q_f64(two[2], two[3]), some, to);
        store(vzip2q_f64(two[0], two[1]), vzip2q_f64(two[2], two[3]), some, to + s_stride);
      }
    }
  }
  static void store(float64x2_t low, float64x2_t high, int count, float* to) {
    float line[8];
    float* at = count == 8 ? to : line;
    vst1q_f32(at, vreinterpretq_f32_f64(low));
    vst1q_f32(at + 4, vreinterpretq_f32_f64(high));
    if (count < 8) std::memcpy(to, line, static_cast<size_t>(count) * sizeof(float));
  }

  // out[rows, dim] += p[rows, count] values[count, dim] for the first kPairs pairs of rows.
  template <int kPairs, typename Dim>
  static void weigh(const float* p, int p_stride, int rows, const uint16_t* values, int count, Dim dim, float* out,
                    const uint16_t* ahead) {
    uint16_t weights[kPairs * kMaxKeys * 2];  // [key / 4, row pair, 2 rows, 4 keys]
    for (int row = 0; row < 2 * kPairs; ++row) {
      uint16_t* to = weights + 4 * row;
      const float* from = p + row * p_stride;
      int key = 0;
      if (row < rows) {
        for (; key + 4 <= count; key += 4) vst1_u16(to + 2 * kPairs * key, to_bf16(vld1q_f32(from + key)));
      }
      for (; key < count; key += 4) {
        float line[4] = {};
        for (int j = 0; j < 4 && row < rows && key + j < count; ++j) line[j] = from[key + j];
        vst1_u16(to + 2 * kPairs * key, to_bf16(vld1q_f32(line)));
      }
    }
    constexpr int kWide = kPairs == 1 ? 4 : 2;  // sixteen sums in flight
    int d = 0;
    for (; d + 8 * kWide <= dim; d += 8 * kWide)
      weigh_columns<kPairs, kWide>(weights, rows, values + d, count, dim, out + d, ahead + d * count);
    for (; d < dim; d += 8) weigh_columns<kPairs, 1>(weights, rows, values + d, count, dim, out + d, ahead + d * count);
  }

  template <int kPairs, int kWide, typename Dim>
  static void weigh_columns(const uint16_t* weights, int rows, const uint16_t* values, int count, Dim dim, float* out,
                            const uint16_t* ahead) {
    float32x4_t acc[kPairs][4 * kWide];  // [row pair, dim pair], each 2x2
    for (int pair = 0; pair < kPairs; ++pair) {
      const float* first = out + 2 * pair * dim;
      const float* second = 2 * pair + 1 < rows ? first + dim : first;
      for (int j = 0; j < 4 * kWide; ++j)
        acc[pair][j] = vcombine_f32(vld1_f32(first + 2 * j), vld1_f32(second + 2 * j));
    }
    const auto add_keys = [&](const uint16_t* const(&v)[4]) {
      for (int wide = 0; wide < kWide; ++wide) {
        uint16x8_t row[4];
        for (int j = 0; j < 4; ++j) row[j] = vld1q_u16(v[j] + 8 * wide);
        const uint32x4_t low01 = vreinterpretq_u32_u16(vzip1q_u16(row[0], row[1]));
        const uint32x4_t low23 = vreinterpretq_u32_u16(vzip1q_u16(row[2], row[3]));
        const uint32x4_t high01 = vreinterpretq_u32_u16(vzip2q_u16(row[0], row[1]));
        const uint32x4_t high23 = vreinterpretq_u32_u16(vzip2q_u16(row[2], row[3]));
        const bfloat16x8_t columns[4] = {
            vreinterpretq_bf16_u32(vzip1q_u32(low01, low23)), vreinterpretq_bf16_u32(vzip2q_u32(low01, low23)),
            vreinterpretq_bf16_u32(vzip1q_u32(high01, high23)), vreinterpretq_bf16_u32(vzip2q_u32(high01, high23))};
        for (int pair = 0; pair < kPairs; ++pair) {
          const bfloat16x8_t weight = load(weights + 8 * pair);
          for (int j = 0; j < 4; ++j) {
            acc[pair][4 * wide + j] = vbfmmlaq_f32(acc[pair][4 * wide + j], weight, columns[j]);
          }
        }
      }
      weights += 8 * kPairs;
    };
    int key = 0;
    for (; key + 4 <= count; key += 4, values += 4 * dim, ahead += 32 * kWide) {
      for (int wide = 0; wide < kWide; ++wide) fetch(ahead + 32 * wide);
      add_keys({values, values + dim, values + 2 * dim, values + 3 * dim});
    }
    if (key < count) {  // behind the last key it is repeated, with weights of zero
      const uint16_t* last = values + int64_t{count - 1 - key} * dim;
      add_keys({values, std::min(values + dim, last), std::min(values + 2 * dim, last), last});
    }
    for (int pair = 0; pair < kPairs; ++pair) {
      float* first = out + 2 * pair * dim;
      for (int j = 0; j < 4 * kWide; ++j) {
        vst1_f32(first + 2 * j, vget_low_f32(acc[pair][j]));
        if (2 * pair + 1 < rows) vst1_f32(first + dim + 2 * j, vget_high_f32(acc[pair][j]));
      }
    }
  }
};

}  // namespace
}  // namespace ei::kernels
