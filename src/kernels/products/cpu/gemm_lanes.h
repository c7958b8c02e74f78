// Products in vector registers, pairs of bf16 in a lane (contract in gemm.h): 12 x 32 blocks of y, 24 of the 32
// registers that AVX-512 has. Each pair of k loads two vectors of W and broadcasts 12 pairs of x for 24 multiply-adds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/workers.h"
#include "kernels/attention/cpu/lanes.h"
#include "kernels/products/cpu/gemm_panels.h"
#include "kernels/products/gemm.h"

namespace ei::kernels {

template <typename V>
struct LanesGemm {
  using Panels = PairPanels<V>;
  static constexpr int64_t kRows = 12;  // of x in a panel
  static constexpr int64_t kColumns = Panels::kColumns;
  static constexpr int64_t kWide = 2 * kColumns;  // columns of a block
  static constexpr int64_t kStep = Panels::kStep;
  // A pass over k: 16 KiB of W stay in the first-level cache while the tile's panels of x go by, 6 KiB each.
  static constexpr int64_t kPass = 256;

  static void multiply(const GemmTile& tile) {
    alignas(64) static constexpr float kZero[kRows * kWide] = {};
    alignas(64) float sums[kGemmTilePanels][kRows * kWide];
    const int64_t passes = (tile.depth + kPass - 1) / kPass;
    const int64_t steps = tile.depth / kStep;
    for (int64_t column = 0; column < tile.columns; column += kWide) {
      const int64_t columns = std::min(kWide, tile.columns - column);
      for (int64_t pass = 0; pass < passes; ++pass) {
        const Range range = even_share(steps, {static_cast<int>(pass), static_cast<int>(passes)});
        const uint16_t* w = tile.w + column * tile.depth + range.begin * kColumns * kStep;
        const uint16_t* next = columns > kColumns ? w + kColumns * tile.depth : w;
        for (int64_t row = 0; row < tile.rows; row += kRows) {
          float* own = sums[row / kRows];
          float* y = tile.y + row * tile.y_stride + column;
          const int64_t rows = std::min(kRows, tile.rows - row);
          const bool last = pass + 1 == passes;
          const bool whole = last && rows == kRows && columns == kWide;
          add({.x = lanes(tile.x + row * tile.depth + range.begin * kRows * kStep),
               .w = {lanes(w), lanes(next)},
               .steps = range.end - range.begin,
               .from = pass == 0 ? kZero : own,
               .to = whole ? y : own,
               .to_stride = whole ? tile.y_stride : kWide});
          if (!last || whole) continue;
          for (int64_t i = 0; i < rows; ++i) std::copy_n(own + i * kWide, columns, y + i * tile.y_stride);
        }
      }
    }
  }

 private:
  struct Block {
    const float* x;     // a panel; each lane a pair
    const float* w[2];  // two panels
    int64_t steps;
    const float* from;  // [kRows, kWide]
    float* to;
    int64_t to_stride;
  };

  static const float* lanes(const uint16_t* pairs) { return reinterpret_cast<const float*>(pairs); }

  // to = from + x w^T. Not inlined: on its own it keeps its sums in registers.
  [[gnu::noinline]] static void add(const Block& block) {
    V c[kRows][2];
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      c[row][0] = V::load(block.from + row * kWide);
      c[row][1] = V::load(block.from + row * kWide + kColumns);
    }
    const float* x = block.x;
    const float* left = block.w[0];
    const float* right = block.w[1];
    for (int64_t step = 0; step < block.steps; ++step) {
      multiply_lanes<V, kRows, 2, true>(
          c, 16, [&](int row, int i) { return x + row * 16 + i; },
          [&](int i, int v) { return (v == 0 ? left : right) + i * kColumns; });
      x += kRows * 16;
      left += kColumns * 16;
      right += kColumns * 16;
    }
    float* to = block.to;
    const int64_t stride = block.to_stride;
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row, to += stride) {
      c[row][0].store(to);
      c[row][1].store(to + kColumns);
    }
  }
};

}  // namespace ei::kernels
