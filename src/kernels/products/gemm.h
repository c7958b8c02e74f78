// Products of packed matrices: y[m, n] = x[m, k] W[n, k]^T, both rounded to bf16, to fp16 or, in blocks of 32 with a
// scale each, to 8 bits (to nearest even), sums in fp32.
//
// Rows of x and rows of W are packed into panels, filled up with zeros to whole panels and to whole steps of k. Every
// element of y adds its products in one fixed order of k, whatever panel or tile it lies in: results depend neither on
// the workers nor on how the rows of x are cut into calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/workers.h"
#include "tensor/matrix.h"

namespace ei::kernels {

// One piece of a product: some whole panels of x by some whole panels of W.
struct GemmTile {
  const uint16_t* x = nullptr;  // [panel, row_panel * depth]
  const uint16_t* w = nullptr;  // [panel, column_panel * depth]
  int64_t depth = 0;            // GemmKernel::depth(k)
  int64_t rows = 0;             // of y; at most kGemmTilePanels panels
  int64_t columns = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
};

inline constexpr int64_t kGemmTilePanels = 12;  // panels of x in a tile

struct GemmKernel {
  std::string_view name;
  std::string_view numbers = "bf16";  // or "fp16", "int8"
  bool (*usable)();                   // does this CPU have it?
  int64_t row_panel = 0;              // rows of x in a panel
  int64_t column_panel = 0;           // rows of W in a panel
  int64_t step = 0;                   // k is filled up to a multiple of this
  int64_t step_elements = step;       // that a step of a row takes
  int64_t facts = 0;                  // and by this much more, for what the kernel notes about a panel
  // One panel: `rows` rows of `cols` floats, `stride` apart; the rest of the panel becomes zero.
  void (*pack_rows)(const float* from, int64_t stride, int64_t rows, int64_t cols, uint16_t* to);
  void (*pack_columns)(const float* from, int64_t stride, int64_t rows, int64_t cols, uint16_t* to);
  void (*multiply)(const GemmTile& tile);

  int64_t depth(int64_t k) const { return (k + step - 1) / step * step_elements + facts; }
  int64_t row_panels(int64_t m) const { return (m + row_panel - 1) / row_panel; }
  int64_t column_panels(int64_t n) const { return (n + column_panel - 1) / column_panel; }
  // Elements of a packed x and of a packed W.
  int64_t packed_rows(int64_t m, int64_t k) const { return row_panels(m) * row_panel * depth(k); }
  int64_t packed_columns(int64_t n, int64_t k) const { return column_panels(n) * column_panel * depth(k); }
};

// All kernels compiled for this architecture, fastest first.
std::span<const GemmKernel* const> gemm_kernels();
// The fastest usable kernel, or null when this CPU multiplies no such matrices here. `isa` (from EI_CPU_ISA) caps the
// choice as it does for attention: a variant that it leaves out is not used for products either.
const GemmKernel* choose_gemm(std::string_view isa);

// Both are called by every worker with the same arguments; `queue` starts reset. All workers must have left
// gemm_pack() before one enters gemm().
void gemm_pack(const GemmKernel& kernel, Matrix x, uint16_t* to, WorkQueue& queue);
// `x` and `w` as gemm_pack() and pack_columns() left them; k is y's inner dimension.
struct GemmParams {
  const uint16_t* x = nullptr;
  const uint16_t* w = nullptr;
  int64_t k = 0;
  Matrix y;  // [m, n]
};
void gemm(const GemmKernel& kernel, const GemmParams& params, WorkQueue& queue);

}  // namespace ei::kernels
