#include "kernels/products/gemm.h"

#include <algorithm>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/variants.h"

namespace ei::kernels {
namespace {

// A tile of x is read again for every panel of W, so it has to stay in the second-level cache of one core.
constexpr int64_t kTileBytes = 400 << 10;
// Few enough columns that a small matrix still gives every worker many pieces; x is then packed, not converted, so that
// coming back to a tile costs little.
constexpr int64_t kTileColumnPanels = 8;

}  // namespace

std::span<const GemmKernel* const> gemm_kernels() {
  static const std::vector<const GemmKernel*> kernels = {
#if defined(__aarch64__)
    &neonbf16_gemm(),
    &neonfp16_gemm(),
#elif defined(__x86_64__)
    &amx_gemm(),
    &avx512bf16_gemm(),
    &avx512vnni_gemm(),
#endif
  };
  return kernels;
}

const GemmKernel* choose_gemm(std::string_view isa) {
  // The kernels share the names of attention's variants, and their order.
  bool allowed = isa.empty();
  for (const AttentionVariant* attention : attention_variants()) {
    allowed = allowed || attention->name == isa;
    for (const GemmKernel* kernel : gemm_kernels())
      if (allowed && kernel->name == attention->name && kernel->usable()) return kernel;
  }
  return nullptr;
}

void gemm_pack(const GemmKernel& kernel, Matrix x, uint16_t* to, WorkQueue& queue) {
  const int64_t panel_elements = kernel.row_panel * kernel.depth(x.cols);
  for (int64_t panel; (panel = queue.take()) < kernel.row_panels(x.rows);) {
    const int64_t row = panel * kernel.row_panel;
    kernel.pack_rows(x.data + row * x.stride, x.stride, std::min(kernel.row_panel, x.rows - row), x.cols,
                     to + panel * panel_elements);
  }
}

void gemm(const GemmKernel& kernel, const GemmParams& params, WorkQueue& queue) {
  const Matrix& y = params.y;
  const int64_t depth = kernel.depth(params.k);
  const int64_t panels = kernel.row_panels(y.rows);
  const int64_t most = std::clamp(kTileBytes / (kernel.row_panel * depth * 2), int64_t{1}, kGemmTilePanels);
  const int64_t row_tiles = (panels + most - 1) / most;
  const int64_t tile_columns = kTileColumnPanels * kernel.column_panel;
  const int64_t column_tiles = (y.cols + tile_columns - 1) / tile_columns;
  // Tiles of rows innermost: all of them read the same few panels of W, which come from memory once.
  for (int64_t piece; (piece = queue.take()) < row_tiles * column_tiles;) {
    const Range rows = even_share(panels, {static_cast<int>(piece % row_tiles), static_cast<int>(row_tiles)});
    const int64_t row = rows.begin * kernel.row_panel;
    const int64_t column = piece / row_tiles * tile_columns;
    kernel.multiply({.x = params.x + row * depth,
                     .w = params.w + column * depth,
                     .depth = depth,
                     .rows = std::min(rows.end * kernel.row_panel, y.rows) - row,
                     .columns = std::min(tile_columns, y.cols - column),
                     .y = y.data + row * y.stride + column,
                     .y_stride = y.stride});
  }
}

}  // namespace ei::kernels
