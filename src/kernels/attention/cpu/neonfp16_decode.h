// The decode half of the half-precision ARM variant (contract in flash.h): f16 rows of K and V are multiplied as they
// lie. At most four products of a score and 32 of an output are added up in half precision; what overflows there is
// taken again in fp32. Unnamed namespace: see flash.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/attention/cpu/neon_decode.h"
#include "kernels/attention/cpu/neonfp16_weigh.h"
#include "kernels/simd/neon_fp16.h"

namespace ei::kernels {
namespace {

struct NeonFp16Decode {
  // A row is [dim] halves, and behind them in the room of `dim` floats the power of two that was taken out of it.
  using Element = float;
  static int padded_rows(int rows) { return rows; }

  static void pack_queries(const float* const* rows, int count, int dim, float scale, float* to) {
    for (int row = 0; row < count; ++row, to += dim) {
      float largest = 0;
      for (int d = 0; d < dim; ++d) largest = std::max(largest, std::abs(rows[row][d] * scale));
      const int exponent = largest > kLargestQuery ? std::min(std::ilogb(largest) - 8, 126) : 0;
      const float factor = std::ldexp(scale, -exponent);
      for (int d = 0; d < dim; ++d) halves_of(to)[d] = static_cast<float16_t>(rows[row][d] * factor);
      to[dim / 2] = std::ldexp(1.0f, exponent);
    }
  }

  static void scores(const float* q, int rows, const void* keys, int count, DType, int dim, float* s, int s_stride,
                     const void* ahead) {
    const auto* from = static_cast<const float16_t*>(keys);
    const auto* next = static_cast<const float16_t*>(ahead);
    with_rows(rows, [&](int row, auto some) {
      with_dim(dim, [&](auto d) { dots<some()>(q + row * dim, from, count, d, s + row * s_stride, s_stride, next); });
    });
  }

  static float max(const float* s, int count) { return NeonDecode::max(s, count); }
  static float exp_sum(float* s, int count, float max) { return exp_sum_neon<RoughExp2>(s, count, max); }

  static void accumulate(const float* p, int p_stride, int rows, const void* values, int count, DType type, int dim,
                         float* out, const void* ahead) {
    const auto* from = static_cast<const float16_t*>(values);
    const auto* next = static_cast<const float16_t*>(ahead);
    with_rows(rows, [&](int row, auto some) {
      const float* weights = p + row * p_stride;
      float sums[some() * kMaxDim] = {};
      weigh<some()>(weights, p_stride, from, count, dim, sums, next);
      if (add_finite(sums, some() * dim, out + row * dim)) return;
      NeonDecode::accumulate(weights, p_stride, some(), values, count, type, dim, out + row * dim, ahead);
    });
  }

 private:
  static constexpr int kMaxDim = 256;
  static constexpr float kLargestQuery = 512;
  // Scores beyond this are taken again: partial sums that overflow are infinite or not a number, and stay so.
  static constexpr float kLargestScore = 32768;
  // Weights are at most 18.12 * 2^kLazyMax and seldom above 18.12; in half precision they are divided by this.
  static constexpr float kWeightUnit = 16;

  static float16_t* halves_of(float* row) { return reinterpret_cast<float16_t*>(row); }
  static const float16_t* halves_of(const float* row) { return reinterpret_cast<const float16_t*>(row); }
  // Loads stay on their side of this: compilers would load many rows first, and have no registers left for sums.
  static void stay() { asm volatile("" ::: "memory"); }
  static void fetch(const float16_t* at) { __builtin_prefetch(at, 0, 2); }

  // Three rows at a time, or two: as many sums as there are registers for.
  template <typename Use>
  static void with_rows(int rows, Use use) {
    int row = 0;
    for (; rows - row == 3 || rows - row > 4; row += 3) use(row, std::integral_constant<int, 3>{});
    for (; rows - row >= 2; row += 2) use(row, std::integral_constant<int, 2>{});
    if (row < rows) use(row, std::integral_constant<int, 1>{});
  }

  template <typename Use>
  static void with_dim(int dim, Use use) {
    if (dim == 64) return use(std::integral_constant<int, 64>{});
    if (dim == 128) return use(std::integral_constant<int, 128>{});
    use(dim);
  }

  // Scores of kRows query rows, four keys at a time; behind the last key it is repeated.
  template <int kRows, typename Dim>
  static void dots(const float* q, const float16_t* keys, int count, Dim dim, float* s, int s_stride,
                   const float16_t* ahead) {
    uint32x4_t fine = vdupq_n_u32(~0u);
    for (int key = 0; key < count; key += 4) {
      const float16_t* k[4];
      for (int j = 0; j < 4; ++j) k[j] = keys + int64_t{std::min(key + j, count - 1)} * dim;
      float32x4_t sums[kRows][4];
      for (auto& row : sums) {
        for (auto& lanes : row) lanes = vdupq_n_f32(0);
      }
      int d = 0;
      for (; d + 32 <= dim; d += 32) {
        for (int line = 0; line < 4; ++line) fetch(ahead + key * dim + 4 * d + 32 * line);
        add_chain<kRows>(q, k, dim, d, std::integral_constant<int, 4>{}, sums);
      }
      if (d < dim) add_chain<kRows>(q, k, dim, d, (dim - d) / 8, sums);
      for (int row = 0; row < kRows; ++row) {
        const float32x4_t four =
            vpaddq_f32(vpaddq_f32(sums[row][0], sums[row][1]), vpaddq_f32(sums[row][2], sums[row][3]));
        const float32x4_t score = vmulq_n_f32(four, q[row * dim + dim / 2]);
        fine = vandq_u32(fine, vcaleq_f32(four, vdupq_n_f32(kLargestScore)));
        float line[4];
        vst1q_f32(line, score);
        float* to = s + row * s_stride + key;
        if (count - key >= 4) {
          vst1q_f32(to, score);
        } else {
          std::copy(line, line + (count - key), to);
        }
      }
    }
    if (vminvq_u32(fine) == 0) repair<kRows>(q, keys, count, dim, s, s_stride);
  }

  // Four vectors of every key times one of every row.
  template <int kRows, typename Use>
  static inline __attribute__((always_inline)) void each_product(const float* q, const float16_t* const (&k)[4],
                                                                 int dim, int d, Use use) {
    float16x8_t loaded[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) loaded[j] = vld1q_f16(k[j] + d);
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
      const float16x8_t query = vld1q_f16(halves_of(q + row * dim) + d);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) use(row, j, query, loaded[j]);
    }
    stay();
  }

  // Adds the products of `vectors` (one to four) vectors of eight from dim `d` on.
  template <int kRows, typename Vectors>
  static inline __attribute__((always_inline)) void add_chain(const float* q, const float16_t* const (&k)[4], int dim,
                                                              int d, Vectors vectors, float32x4_t (&sums)[kRows][4]) {
    float16x8_t chain[kRows][4];
    each_product<kRows>(q, k, dim, d,
                        [&](int row, int j, float16x8_t a, float16x8_t b) { chain[row][j] = vmulq_f16(a, b); });
    const auto add = [&](int row, int j, float16x8_t a, float16x8_t b) {
      chain[row][j] = vfmaq_f16(chain[row][j], a, b);
    };
    // Not a loop: with a number of rounds that is not known GCC would keep the sums in memory.
    if (vectors > 1) each_product<kRows>(q, k, dim, d + 8, add);
    if (vectors > 2) each_product<kRows>(q, k, dim, d + 16, add);
    if (vectors > 3) each_product<kRows>(q, k, dim, d + 24, add);
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const float32x4_t low = vcvt_f32_f16(vget_low_f16(chain[row][j]));
        sums[row][j] = vaddq_f32(sums[row][j], vaddq_f32(low, vcvt_high_f32_f16(chain[row][j])));
      }
    }
  }

  // Scores whose sums overflowed, in fp32.
  template <int kRows>
  static void repair(const float* q, const float16_t* keys, int count, int dim, float* s, int s_stride) {
    for (int row = 0; row < kRows; ++row) {
      const float taken = q[row * dim + dim / 2];
      for (int key = 0; key < count; ++key) {
        float& score = s[row * s_stride + key];
        if (std::abs(score) <= kLargestScore * taken) continue;
        score = 0;
        for (int d = 0; d < dim; ++d)
          score += static_cast<float>(halves_of(q + row * dim)[d]) * static_cast<float>(keys[int64_t{key} * dim + d]);
        score *= taken;
      }
    }
  }

  // sums[kRows, dim] += p[kRows, count] values[count, dim] / kWeightUnit, in runs of kWeighKeys keys.
  template <int kRows>
  static void weigh(const float* p, int p_stride, const float16_t* values, int count, int dim, float* sums,
                    const float16_t* ahead) {
    for (int begin = 0; begin < count; begin += kWeighKeys) {
      const int keys = std::min(kWeighKeys, count - begin);
      float16_t weights[kRows][kWeighKeys] = {};
      for (int row = 0; row < kRows; ++row) {
        const float* from = p + row * p_stride + begin;
        for (int key = 0; key < keys; key += 4) {
          float four[4] = {};
          if (keys - key < 4) std::copy(from + key, from + keys, four);
          const float32x4_t weight = vld1q_f32(keys - key < 4 ? four : from + key);
          vst1_f16(weights[row] + key, vcvt_f16_f32(vmulq_n_f32(weight, 1 / kWeightUnit)));
        }
      }
      const float16_t* from = values + int64_t{begin} * dim;
      const float16_t* next = ahead + int64_t{begin} * dim;
      const int whole = keys / 8 * 8;
      int d = 0;
      for (; d + kWeighColumns <= dim && whole > 0; d += kWeighColumns) {
        float16_t run[kRows][kWeighColumns];
        weigh_run<kRows>(weights, from + d, 2 * dim, whole / 8, run, next + d * keys);
        for (int row = 0; row < kRows; ++row) {
          for (int j = 0; j < kWeighColumns; j += 8) add_widened(vld1q_f16(run[row] + j), sums + row * dim + d + j);
        }
      }
      weigh_rest<kRows>(weights, from, 0, whole, d, dim, sums);
      weigh_rest<kRows>(weights, from, whole, keys, 0, dim, sums);
    }
  }

  // The same of keys [begin, end) and columns [first, dim) of a run.
  template <int kRows>
  static void weigh_rest(const float16_t (&weights)[kRows][kWeighKeys], const float16_t* values, int begin, int end,
                         int first, int dim, float* sums) {
    for (int d = first; d < dim && begin < end; d += 8) {
      float16x8_t run[kRows];
      for (auto& lanes : run) lanes = vdupq_n_f16(0);
      for (int key = begin; key < end; ++key) {
        const float16x8_t value = vld1q_f16(values + int64_t{key} * dim + d);
        for (int row = 0; row < kRows; ++row) run[row] = vfmaq_f16(run[row], value, vld1q_dup_f16(&weights[row][key]));
      }
      for (int row = 0; row < kRows; ++row) add_widened(run[row], sums + row * dim + d);
    }
  }

  // out += kWeightUnit * sums; false, and out as it was, where a sum overflowed.
  static bool add_finite(const float* sums, int count, float* out) {
    uint32x4_t fine = vdupq_n_u32(~0u);
    for (int i = 0; i < count; i += 4) fine = vandq_u32(fine, vcaleq_f32(vld1q_f32(sums + i), vdupq_n_f32(1e30f)));
    if (vminvq_u32(fine) == 0) return false;
    for (int i = 0; i < count; i += 4)
      vst1q_f32(out + i, vfmaq_n_f32(vld1q_f32(out + i), vld1q_f32(sums + i), kWeightUnit));
    return true;
  }
};

}  // namespace
}  // namespace ei::kernels
