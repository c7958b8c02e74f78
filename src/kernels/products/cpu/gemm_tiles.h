// Products on matrix tiles (contract in gemm.h): 32 x 32 blocks of y, four tiles, by two tiles of x and two of W a
// step.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/workers.h"
#include "kernels/products/cpu/gemm_panels.h"
#include "kernels/products/gemm.h"

namespace ei::kernels {

template <typename V, typename Tiles>
struct TilesGemm {
  using Panels = PairPanels<V>;
  static constexpr int64_t kRows = 32;                   // of x in a panel: two tiles of A
  static constexpr int64_t kColumns = Panels::kColumns;  // one tile of B
  static constexpr int64_t kStep = Panels::kStep;
  static constexpr int64_t kTile = 512;  // bf16
  // A pass over k: the panels of x and W that it reads, 16 KiB each, stay in the first-level cache together.
  static constexpr int64_t kPass = 256;

  static void multiply(const GemmTile& tile) {
    const Session session;
    alignas(64) float sums[kGemmTilePanels][4 * 256];
    const int64_t passes = (tile.depth + kPass - 1) / kPass;
    const int64_t steps = tile.depth / kStep;
    for (int64_t column = 0; column < tile.columns; column += 2 * kColumns) {
      const int64_t columns = std::min(2 * kColumns, tile.columns - column);
      for (int64_t pass = 0; pass < passes; ++pass) {
        const Range range = even_share(steps, {static_cast<int>(pass), static_cast<int>(passes)});
        const uint16_t* w = tile.w + column * tile.depth + range.begin * kTile;
        const uint16_t* next = columns > kColumns ? w + kColumns * tile.depth : w;
        for (int64_t row = 0; row < tile.rows; row += kRows) {
          float* own = sums[row / kRows];
          start(pass == 0 ? nullptr : own);
          add(tile.x + row * tile.depth + range.begin * 2 * kTile, w, next, range.end - range.begin);
          if (pass + 1 < passes) {
            store_tiles(own, 256, 512, 64);
            continue;
          }
          const int64_t rows = std::min(kRows, tile.rows - row);
          float* y = tile.y + row * tile.y_stride + column;
          if (rows == kRows && columns == 2 * kColumns) {
            store_tiles(y, 16, 16 * tile.y_stride, tile.y_stride * 4);
            continue;
          }
          store_tiles(own, 16, 16 * 32, 32 * 4);
          for (int64_t i = 0; i < rows; ++i) std::copy_n(own + i * 32, columns, y + i * tile.y_stride);
        }
      }
    }
  }

 private:
  struct Session {
    Session() : before(Tiles::configure()) {}
    ~Session() { Tiles::restore(before); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    typename Tiles::Config before;
  };

  // The four tiles of a block: zero, or what store_tiles(sums, 256, 512, 64) left.
  static void start(const float* sums) {
    if (sums == nullptr) {
      Tiles::template zero<0>();
      Tiles::template zero<1>();
      Tiles::template zero<2>();
      Tiles::template zero<3>();
    } else {
      Tiles::template load<0>(sums);
      Tiles::template load<1>(sums + 256);
      Tiles::template load<2>(sums + 512);
      Tiles::template load<3>(sums + 768);
    }
  }
  static void store_tiles(float* to, int64_t right, int64_t down, int64_t row_bytes) {
    const auto stride = static_cast<ptrdiff_t>(row_bytes);
    Tiles::template store<0>(to, stride);
    Tiles::template store<1>(to + right, stride);
    Tiles::template store<2>(to + down, stride);
    Tiles::template store<3>(to + down + right, stride);
  }
  // += x w^T for one panel of x and two of W
  static void add(const uint16_t* x, const uint16_t* left, const uint16_t* right, int64_t steps) {
    for (int64_t step = 0; step < steps; ++step, x += 2 * kTile, left += kTile, right += kTile) {
      Tiles::template load<4>(x);
      Tiles::template load<6>(left);
      Tiles::template dot<0, 4, 6>();
      Tiles::template load<7>(right);
      Tiles::template dot<1, 4, 7>();
      Tiles::template load<5>(x + kTile);
      Tiles::template dot<2, 5, 6>();
      Tiles::template dot<3, 5, 7>();
    }
  }
};

}  // namespace ei::kernels
