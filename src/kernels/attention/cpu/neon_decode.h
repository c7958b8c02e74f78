// The decode half of the ARM variants in fp32: K and V rows of any type read where they lie (contract in flash.h).
#pragma once

#include <algorithm>

#include "kernels/simd/neon.h"

namespace ei::kernels {
namespace {

struct NeonDecode {
  using Element = float;
  static int padded_rows(int rows) { return rows; }

  static void pack_queries(const float* const* rows, int count, int dim, float scale, float* to) {
    for (int row = 0; row < count; ++row) {
      for (int d = 0; d < dim; ++d) to[row * dim + d] = rows[row][d] * scale;
    }
  }

  static void scores(const float* q, int rows, const void* keys, int count, DType type, int dim, float* s, int s_stride,
                     const void*) {
    with_type(type, [&](auto tag) {
      constexpr DType kType = decltype(tag)::kType;
      for (int row = 0; row < rows;) {
        const float* from = q + row * dim;
        float* to = s + row * s_stride;
        const int left = rows - row;
        if (left >= 4) {
          dots<kType, 4>(from, keys, count, dim, to, s_stride);
          row += 4;
        } else if (left >= 2) {
          dots<kType, 2>(from, keys, count, dim, to, s_stride);
          row += 2;
        } else {
          dots<kType, 1>(from, keys, count, dim, to, s_stride);
          row += 1;
        }
      }
    });
  }

  static float max(const float* s, int count) {
    float highest = s[0];
    int i = 0;
    if (count >= 16) {
      float32x4_t lanes[4];
      for (int j = 0; j < 4; ++j) lanes[j] = vld1q_f32(s + 4 * j);
      for (i = 16; i + 16 <= count; i += 16) {
        for (int j = 0; j < 4; ++j) lanes[j] = vmaxq_f32(lanes[j], vld1q_f32(s + i + 4 * j));
      }
      highest = vmaxvq_f32(vmaxq_f32(vmaxq_f32(lanes[0], lanes[1]), vmaxq_f32(lanes[2], lanes[3])));
    }
    for (; i < count; ++i) highest = std::max(highest, s[i]);
    return highest;
  }

  static float exp_sum(float* s, int count, float max) { return exp_sum_neon<Exp2>(s, count, max); }

  static void accumulate(const float* p, int p_stride, int rows, const void* values, int count, DType type, int dim,
                         float* out, const void*) {
    with_type(type, [&](auto tag) {
      constexpr DType kType = decltype(tag)::kType;
      // Sixteen accumulators whatever the number of rows: 4 x 16, 2 x 32 or 1 x 64 elements of the output.
      for (int row = 0; row < rows;) {
        const float* weights = p + row * p_stride;
        float* to = out + row * dim;
        const int left = rows - row;
        if (left >= 4) {
          weigh<kType, 4, 16>(weights, p_stride, values, count, dim, to);
          row += 4;
        } else if (left >= 2) {
          weigh<kType, 2, 32>(weights, p_stride, values, count, dim, to);
          row += 2;
        } else {
          weigh<kType, 1, 64>(weights, p_stride, values, count, dim, to);
          row += 1;
        }
      }
    });
  }

 private:
  template <DType kType>
  static const void* row_of(const void* base, int64_t row, int dim) {
    return static_cast<const char*>(base) + row * dim * static_cast<int64_t>(dtype_bytes(kType));
  }

  // Scores of kRows query rows, four keys at a time.
  template <DType kType, int kRows>
  static void dots(const float* q, const void* keys, int count, int dim, float* s, int s_stride) {
    int key = 0;
    for (; key + 4 <= count; key += 4) {
      float32x4_t acc[kRows][4];
      for (auto& row : acc) {
        for (auto& lane : row) lane = vdupq_n_f32(0);
      }
      const void* k[4];
      for (int j = 0; j < 4; ++j) k[j] = row_of<kType>(keys, key + j, dim);
      for (int d = 0; d < dim; d += 8) {
        float32x4x2_t loaded[4];
        for (int j = 0; j < 4; ++j) loaded[j] = load8<kType>(k[j], d);
        for (int half = 0; half < 2; ++half) {
          for (int row = 0; row < kRows; ++row) {
            const float32x4_t query = vld1q_f32(q + row * dim + d + 4 * half);
            for (int j = 0; j < 4; ++j) acc[row][j] = vfmaq_f32(acc[row][j], query, loaded[j].val[half]);
          }
        }
      }
      for (int row = 0; row < kRows; ++row) {
        vst1q_f32(s + row * s_stride + key,
                  vpaddq_f32(vpaddq_f32(acc[row][0], acc[row][1]), vpaddq_f32(acc[row][2], acc[row][3])));
      }
    }
    for (; key < count; ++key) {
      for (int row = 0; row < kRows; ++row) {
        float32x4_t acc = vdupq_n_f32(0);
        for (int d = 0; d < dim; d += 8) {
          const float32x4x2_t loaded = load8<kType>(row_of<kType>(keys, key, dim), d);
          acc = vfmaq_f32(acc, vld1q_f32(q + row * dim + d), loaded.val[0]);
          acc = vfmaq_f32(acc, vld1q_f32(q + row * dim + d + 4), loaded.val[1]);
        }
        s[row * s_stride + key] = vaddvq_f32(acc);
      }
    }
  }

  // out[kRows, dim] += p[kRows, count] values[count, dim], kDims columns at a time, the rest eight at a time.
  template <DType kType, int kRows, int kDims>
  static void weigh(const float* p, int p_stride, const void* values, int count, int dim, float* out) {
    int d = 0;
    for (; d + kDims <= dim; d += kDims) weigh_columns<kType, kRows, kDims>(p, p_stride, values, count, dim, d, out);
    for (; d < dim; d += 8) weigh_columns<kType, kRows, 8>(p, p_stride, values, count, dim, d, out);
  }

  template <DType kType, int kRows, int kDims>
  static void weigh_columns(const float* p, int p_stride, const void* values, int count, int dim, int d, float* out) {
    constexpr int kVectors = kDims / 4;
    float32x4_t acc[kRows][kVectors];
    for (int row = 0; row < kRows; ++row) {
      for (int j = 0; j < kVectors; ++j) acc[row][j] = vld1q_f32(out + row * dim + d + 4 * j);
    }
    for (int key = 0; key < count; ++key) {
      const void* value = row_of<kType>(values, key, dim);
      for (int j = 0; j < kVectors; j += 2) {
        const float32x4x2_t loaded = load8<kType>(value, d + 4 * j);
        for (int row = 0; row < kRows; ++row) {
          const float32x4_t weight = vld1q_dup_f32(p + row * p_stride + key);
          acc[row][j] = vfmaq_f32(acc[row][j], weight, loaded.val[0]);
          acc[row][j + 1] = vfmaq_f32(acc[row][j + 1], weight, loaded.val[1]);
        }
      }
    }
    for (int row = 0; row < kRows; ++row) {
      for (int j = 0; j < kVectors; ++j) vst1q_f32(out + row * dim + d + 4 * j, acc[row][j]);
    }
  }
};

}  // namespace
}  // namespace ei::kernels
