// The decode ISA of the x86 variants (contract in flash.h): f32 maths on K and V rows where they lie, converted on the
// way in. Decode is limited by reading the cache, so elements of a row sit in the lanes and each is loaded once.
#pragma once

#include <type_traits>

#include "kernels/attention/cpu/lanes.h"

namespace ei::kernels {

template <typename V>
struct LanesDecode {
  static constexpr int kWidth = V::kWidth;
  static constexpr int kRowsAtOnce = 4;  // query rows that share a loaded key or value
  static constexpr int kDegree = 5;

  using Element = float;
  static int padded_rows(int rows) { return rows; }

  static void pack_queries(const float* const* rows, int count, int head_dim, float scale, Element* to) {
    for (int row = 0; row < count; ++row) {
      for (int d = 0; d < head_dim; ++d) to[row * head_dim + d] = rows[row][d] * scale;
    }
  }

  static void scores(const Element* q, int rows, const void* keys, int count, DType type, int head_dim, float* s,
                     int s_stride, const void*) {
    with_type(type, [&](auto constant) {
      for (int row = 0; row < rows; row += kRowsAtOnce) {
        const int own = rows - row < kRowsAtOnce ? rows - row : kRowsAtOnce;
        with_rows(own, [&](auto num_rows) {
          for (int key = 0; key < count; ++key) {
            score_key<decltype(num_rows)::value>(q + row * head_dim, keys, decltype(constant)::value, key, head_dim,
                                                 s + row * s_stride + key, s_stride);
          }
        });
      }
    });
  }

  static float max(const float* s, int count) {
    V best = V::set1(kNoScore);
    for (int i = 0; i < count; i += kWidth) {
      best = V::max(best, i + kWidth <= count ? V::load(s + i) : V::load_first(s + i, count - i, kNoScore));
    }
    return best.highest();
  }

  static float exp_sum(float* s, int count, float max) {
    const V highest = V::set1(max);
    V sum = V::zero();
    int i = 0;
    for (; i + kWidth <= count; i += kWidth) {
      const V p = exp2_of<kDegree>(V::load(s + i) - highest);
      p.store(s + i);
      sum = sum + p;
    }
    if (i < count) {
      const V p = exp2_of<kDegree>(V::load_first(s + i, count - i, kNoScore) - highest);
      p.store_first(s + i, count - i);
      sum = sum + p;
    }
    return sum.sum();
  }

  static void accumulate(const float* p, int p_stride, int rows, const void* values, int count, DType type,
                         int head_dim, float* out, const void*) {
    constexpr int kVecs = 2;  // 4 rows x 2 vectors of sums stay in registers, on AVX2 too
    with_type(type, [&](auto constant) {
      for (int row = 0; row < rows; row += kRowsAtOnce) {
        const int own = rows - row < kRowsAtOnce ? rows - row : kRowsAtOnce;
        with_rows(own, [&](auto num_rows) {
          for (int at = 0; at < head_dim; at += kVecs * kWidth) {
            add_columns<decltype(num_rows)::value, kVecs>(p + row * p_stride, p_stride, values,
                                                          decltype(constant)::value, count, at, head_dim,
                                                          out + row * head_dim);
          }
        });
      }
    });
  }

 private:
  template <auto number>
  using Constant = std::integral_constant<decltype(number), number>;
  template <typename Body>
  static void with_type(DType type, Body body) {
    switch (type) {
      case DType::kF32: return body(Constant<DType::kF32>());
      case DType::kF16: return body(Constant<DType::kF16>());
      case DType::kBF16: return body(Constant<DType::kBF16>());
      case DType::kQ8_0:
      case DType::kF8: EI_CHECK(type == DType::kF32);  // unpacked before (flash.h); a GPU's
    }
  }
  template <typename Body>
  static void with_rows(int rows, Body body) {
    switch (rows) {
      case 1: return body(Constant<1>());
      case 2: return body(Constant<2>());
      case 3: return body(Constant<3>());
      default: return body(Constant<4>());
    }
  }
  static int wide_at(int at, int head_dim) { return head_dim - at < kWidth ? head_dim - at : kWidth; }

  template <int rows>
  static void score_key(const Element* q, const void* keys, DType type, int key, int head_dim, float* s, int s_stride) {
    V sum[rows];
    for (V& lanes : sum) lanes = V::zero();
    const int64_t base = int64_t{key} * head_dim;
    int at = 0;
    for (; at + kWidth <= head_dim; at += kWidth) {
      const V k = V::load_typed(keys, type, base + at, kWidth);
      for (int row = 0; row < rows; ++row) sum[row] = V::fma(V::load(q + row * head_dim + at), k, sum[row]);
    }
    if (at < head_dim) {
      const V k = V::load_typed(keys, type, base + at, head_dim - at);
      for (int row = 0; row < rows; ++row) {
        sum[row] = V::fma(V::load_first(q + row * head_dim + at, head_dim - at, 0), k, sum[row]);
      }
    }
    for (int row = 0; row < rows; ++row) s[row * s_stride] = sum[row].sum();
  }

  // out[rows][at .. at + vecs * kWidth) += p values
  template <int rows, int vecs>
  static void add_columns(const float* p, int p_stride, const void* values, DType type, int count, int at, int head_dim,
                          float* out) {
    const int num_vecs = (head_dim - at + kWidth - 1) / kWidth < vecs ? (head_dim - at + kWidth - 1) / kWidth : vecs;
    V sum[rows][vecs];
    int wide[vecs];
    for (int v = 0; v < vecs; ++v) {
      wide[v] = v < num_vecs ? wide_at(at + v * kWidth, head_dim) : 0;
      for (int row = 0; row < rows; ++row) {
        sum[row][v] = v < num_vecs ? V::load_first(out + row * head_dim + at + v * kWidth, wide[v], 0) : V::zero();
      }
    }
    for (int key = 0; key < count; ++key) {
      const int64_t base = int64_t{key} * head_dim + at;
      V lanes[vecs];
      for (int v = 0; v < vecs; ++v) {
        lanes[v] = wide[v] == 0 ? V::zero() : V::load_typed(values, type, base + v * kWidth, wide[v]);
      }
      for (int row = 0; row < rows; ++row) {
        const V weight = V::set1(p[row * p_stride + key]);
        for (int v = 0; v < vecs; ++v) sum[row][v] = V::fma(weight, lanes[v], sum[row][v]);
      }
    }
    for (int v = 0; v < num_vecs; ++v) {
      for (int row = 0; row < rows; ++row) {
        sum[row][v].store_first(out + row * head_dim + at + v * kWidth, wide[v]);
      }
    }
  }
};

}  // namespace ei::kernels
