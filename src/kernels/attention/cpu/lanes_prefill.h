// Prefill ISAs that multiply in vector registers (contract in flash.h, method in lanes.h): f32, or pairs of bf16.
#pragma once

#include "kernels/attention/cpu/lanes.h"

namespace ei::kernels {

// Registers hold `high` x `vecs` sums: AVX2 4 x 3 (12 of 16), AVX-512 8 x 3 (24 of 32). Each step loads `vecs` vectors
// and `high` broadcasts for high * vecs multiply-adds, so the multipliers and not the loads are the limit.
template <typename V, int high, int vecs, bool pairs>
struct LanesPrefill {
  static constexpr int kWidth = V::kWidth;
  static constexpr int kRows = vecs * kWidth;
  static constexpr int kKeys = 64;
  static constexpr int kDegree = pairs ? 4 : 5;
  static constexpr int kStep = pairs ? 2 : 1;  // elements of K and V per 32-bit lane

  using Element = float;  // a lane: one f32, or two bf16 as bits. K, V and Q take dim / kStep lanes a row.
  static int padded_dim(int head_dim) { return static_cast<int>(round_up(head_dim, 8)); }
  static size_t work_bytes(int /*padded_dim*/) { return sizeof(float) * kKeys * kRows; }
  struct Session {
    explicit Session(int /*head_dim*/) {}
  };

  // to[dim / kStep][kRows]
  static void pack_queries(const float* const* rows, int count, int head_dim, float scale, Element* to) {
    const V factor = V::set1(scale);
    for (int v = 0; v < vecs; ++v) {
      const int own = count - v * kWidth;
      for (int at = 0; at < padded_dim(head_dim); at += kWidth) {
        V block[kWidth];
        load_transposed<V>(rows + v * kWidth, own, at, head_dim, block);
        for (int i = 0; i < kWidth && at + i < padded_dim(head_dim); i += kStep) {
          V lanes = block[i] * factor;
          if constexpr (pairs) lanes = V::pair(lanes, block[i + 1] * factor);
          lanes.store(to + (at + i) / kStep * kRows + v * kWidth);
        }
      }
    }
  }

  // to[kKeys][dim / kStep]
  static void pack_keys(const void* const* rows, int count, DType type, int head_dim, Element* to) {
    const int dim = padded_dim(head_dim) / kStep;
    if constexpr (pairs) {
      for (int key = 0; key < count; ++key) std::memcpy(to + key * dim, rows[key], sizeof(uint16_t) * 2 * dim);
    } else {
      for (int key = 0; key < count; ++key) widen(rows[key], type, dim, to + key * dim);
    }
    std::memset(to + count * dim, 0, sizeof(float) * static_cast<size_t>((kKeys - count) * dim));
  }

  // f32: to[kKeys][dim]; bf16: to[kKeys / 2][dim], a lane pairs two keys
  static void pack_values(const void* const* rows, int count, DType type, int head_dim, Element* to) {
    const int dim = padded_dim(head_dim);
    if constexpr (pairs) {
      for (int key = 0; key < count; key += 2) {
        const auto* first = static_cast<const uint16_t*>(rows[key]);
        const auto* second = key + 1 < count ? static_cast<const uint16_t*>(rows[key + 1]) : nullptr;
        zip_rows(first, second, dim, to + key / 2 * dim);
      }
    } else {
      for (int key = 0; key < count; ++key) widen(rows[key], type, dim, to + key * dim);
    }
    const int filled = (count + kStep - 1) / kStep;
    std::memset(to + filled * dim, 0, sizeof(float) * static_cast<size_t>((kKeys / kStep - filled) * dim));
  }

  // Not inlined: on its own it keeps its pointers and constants in registers.
  [[gnu::noinline]] static void attend(const RowBlock<LanesPrefill>& block, const Element* keys, const Element* values,
                                       int head_dim, void* work) {
    const int dim = padded_dim(head_dim);
    const int first = block.first / high * high;
    const int last = static_cast<int>(round_up(block.last, high));
    float* s = static_cast<float*>(work);  // [kKeys][kRows]; weights replace the scores, in pairs at [kKeys / 2][kRows]
    for (int key = first; key < last; key += high) {
      V c[high][vecs];
      for (auto& row : c) {
        for (V& sum : row) sum = V::zero();
      }
      const float* a = keys + key * (dim / kStep);
      multiply_lanes<V, high, vecs, pairs>(
          c, dim / kStep, [&](int row, int i) { return a + row * (dim / kStep) + i; },
          [&](int i, int v) { return block.q + i * kRows + v * kWidth; });
      for (int row = 0; row < high; ++row) {
        for (int v = 0; v < vecs; ++v) c[row][v].store(s + (key + row) * kRows + v * kWidth);
      }
    }
    V correction[vecs];
    softmax_lanes<V, vecs, kDegree>(
        block, first, last, correction, [&](int key, int v) { return s + key * kRows + v * kWidth; },
        [&](int key, int v, V p0, V p1) {
          if constexpr (pairs) {
            V::pair(p0, p1).store(s + key / 2 * kRows + v * kWidth);
          } else {
            p0.store(s + key * kRows + v * kWidth);
            p1.store(s + (key + 1) * kRows + v * kWidth);
          }
        },
        [] {});
    for (int d = 0; d < dim; d += high) {
      V c[high][vecs];
      float* out = block.out + d * kRows;
      for (int row = 0; row < high; ++row) {
        for (int v = 0; v < vecs; ++v) c[row][v] = V::load(out + row * kRows + v * kWidth) * correction[v];
      }
      const float* a = values + first / kStep * dim + d;
      multiply_lanes<V, high, vecs, pairs>(
          c, (last - first) / kStep, [&](int row, int i) { return a + i * dim + row; },
          [&](int i, int v) { return s + (first / kStep + i) * kRows + v * kWidth; });
      for (int row = 0; row < high; ++row) {
        for (int v = 0; v < vecs; ++v) c[row][v].store(out + row * kRows + v * kWidth);
      }
    }
  }

  static void finish(const RowBlock<LanesPrefill>& block, int count, int head_dim, float* const* rows) {
    for (int v = 0; v < vecs && v * kWidth < count; ++v) {
      finish_lanes<V>(block.sum + v * kWidth, count - v * kWidth, head_dim, rows + v * kWidth,
                      [&](int d) { return block.out + d * kRows + v * kWidth; });
    }
  }

 private:
  static void widen(const void* row, DType type, int dim, float* to) {
    int at = 0;
    for (; at + kWidth <= dim; at += kWidth) V::load_typed(row, type, at, kWidth).store(to + at);
    if (at < dim) V::load_typed(row, type, at, dim - at).store_first(to + at, dim - at);
  }
  static void zip_rows(const uint16_t* first, const uint16_t* second, int dim, float* to) {
    uint16_t low[kWidth], high_half[kWidth];
    for (int at = 0; at < dim; at += kWidth) {
      const int wide = dim - at < kWidth ? dim - at : kWidth;
      if (wide == kWidth && second != nullptr) {
        V::zip(first + at, second + at).store(to + at);
        continue;
      }
      std::memset(high_half, 0, sizeof(high_half));
      std::memset(low, 0, sizeof(low));
      std::memcpy(low, first + at, sizeof(uint16_t) * static_cast<size_t>(wide));
      if (second != nullptr) std::memcpy(high_half, second + at, sizeof(uint16_t) * static_cast<size_t>(wide));
      V::zip(low, high_half).store_first(to + at, wide);
    }
  }
};

}  // namespace ei::kernels
