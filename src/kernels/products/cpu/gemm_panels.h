// Panels of pairs of bf16 for products on x86. Element i of a step's pair j is k = 32 * step + 16 * i + j, on both
// sides: every pair meets its partner, and rows of x are packed without being transposed.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/products/gemm.h"

namespace ei::kernels {

template <typename V>
struct PairPanels {
  static_assert(V::kWidth == 16);
  static constexpr int64_t kColumns = 16;  // rows of W in a panel
  static constexpr int64_t kStep = 32;

  // [step][panel][16][2]
  template <int64_t panel>
  static void pack_rows(const float* from, int64_t stride, int64_t rows, int64_t cols, uint16_t* to) {
    for (int64_t row = 0; row < panel; ++row) {
      const int64_t real = row < rows ? cols : 0;
      uint16_t* at = to + row * kStep;
      for (int64_t k = 0; k < cols; k += kStep, at += panel * kStep) {
        store_bits(V::pair(load(from + row * stride, real, k), load(from + row * stride, real, k + 16)), at);
      }
    }
  }

  // [step][16][kColumns][2]
  static void pack_columns(const float* from, int64_t stride, int64_t rows, int64_t cols, uint16_t* to) {
    for (int64_t k = 0; k < cols; k += kStep, to += kColumns * kStep) {
      V half[2][16];
      for (int64_t i = 0; i < 2; ++i) {
        for (int64_t row = 0; row < 16; ++row) {
          half[i][row] = row < rows ? load(from + row * stride, cols, k + 16 * i) : V::zero();
        }
        V::transpose(half[i]);
      }
      for (int64_t j = 0; j < 16; ++j) store_bits(V::pair(half[0][j], half[1][j]), to + j * 32);
    }
  }

 private:
  // Elements [at, at + 16) of a row of `cols`, zeros behind its end.
  static V load(const float* row, int64_t cols, int64_t at) {
    if (at + 16 <= cols) return V::load(row + at);
    return at < cols ? V::load_first(row + at, static_cast<int>(cols - at), 0) : V::zero();
  }
  static void store_bits(V lanes, uint16_t* to) { lanes.store(reinterpret_cast<float*>(to)); }
};

// The entry of a kernel on these panels: kRows, and multiply() of gemm.h.
template <typename Kernel>
constexpr GemmKernel make_pair_gemm(std::string_view name, bool (*usable)()) {
  using Panels = typename Kernel::Panels;
  return {.name = name,
          .usable = usable,
          .row_panel = Kernel::kRows,
          .column_panel = Panels::kColumns,
          .step = Panels::kStep,
          .pack_rows = Panels::template pack_rows<Kernel::kRows>,
          .pack_columns = Panels::pack_columns,
          .multiply = Kernel::multiply};
}

}  // namespace ei::kernels
