// Products on ARM CPUs with the bf16 matrix instruction: 10 x 8 blocks by the loop in neon_bfmmla.h.
#if defined(__aarch64__)

#include "kernels/simd/arm_features.h"
#include "kernels/simd/neon_bfmmla.h"
#include "kernels/variants.h"

namespace ei::kernels {
namespace {

constexpr int64_t kRows = 2 * kRowPairs;
constexpr int64_t kColumns = 2 * kColumnPairs;
constexpr int64_t kStep = 8;
// A pass over k: 16 KiB of W stay in the first-level cache while the tile's panels of x go by, 20 KiB each.
constexpr int64_t kPass = 1024;

inline uint16x4_t round4(const float* from) { return vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(from))); }

// Group g of four k of a row goes to `at(g)`; the last group is filled up with zeros, and so is the rest of the step.
template <typename Place>
inline void pack_row(const float* from, int64_t cols, Place at) {
  const int64_t whole = cols / 4;
  for (int64_t g = 0; g < whole; ++g) vst1_u16(at(g), round4(from + 4 * g));
  const int64_t groups = (cols + kStep - 1) / kStep * (kStep / 4);
  for (int64_t g = whole; g < groups; ++g) {
    float rest[4] = {};
    for (int64_t i = 4 * g; i < cols; ++i) rest[i - 4 * g] = from[i];
    vst1_u16(at(g), round4(rest));
  }
}

// Calls use(row, data) for every row of a panel, with zeros for those that are not there.
template <typename Use>
inline void each_row(int64_t panel, const float* from, int64_t stride, int64_t rows, Use use) {
  for (int64_t row = 0; row < panel; ++row) use(row, row < rows ? from + row * stride : nullptr);
}

// [step, row pair, half, 2 rows, 4]
void pack_rows(const float* from, int64_t stride, int64_t rows, int64_t cols, uint16_t* to) {
  each_row(kRows, from, stride, rows, [&](int64_t row, const float* data) {
    uint16_t* first = to + row / 2 * 16 + row % 2 * 4;
    pack_row(data, data != nullptr ? cols : 0, [&](int64_t g) { return first + g / 2 * kStep * kRows + g % 2 * 8; });
  });
}

// [step, half, column pair, 2 columns, 4]
void pack_columns(const float* from, int64_t stride, int64_t rows, int64_t cols, uint16_t* to) {
  if (rows == kColumns) {
    // A cache line of each row at a time, so that lines of the panel are written whole, and once.
    constexpr int64_t kLine = 16;
    const int64_t whole = cols / kLine * kLine;
    for (int64_t k = 0; k < whole; k += kLine) {
      for (int64_t row = 0; row < kColumns; ++row) {
        for (int64_t i = 0; i < kLine; i += 4)
          vst1_u16(to + (k + i) * kColumns + row * 4, round4(from + row * stride + k + i));
      }
    }
    from += whole;
    cols -= whole;
    to += whole * kColumns;
  }
  each_row(kColumns, from, stride, rows, [&](int64_t row, const float* data) {
    pack_row(data, data != nullptr ? cols : 0, [&](int64_t g) { return to + g * 4 * kColumns + row * 4; });
  });
}

// [row pair, column pair, 2x2] -> rows of y
inline void store_block(const float* sums, int64_t rows, int64_t columns, float* y, int64_t stride) {
  if (rows == kRows && columns == kColumns) {
    for (int64_t pair = 0; pair < kRowPairs; ++pair, sums += 4 * kColumnPairs, y += 2 * stride) {
      for (int64_t c = 0; c < kColumns; c += 4) {
        const float64x2_t left = vreinterpretq_f64_f32(vld1q_f32(sums + 2 * c));
        const float64x2_t right = vreinterpretq_f64_f32(vld1q_f32(sums + 2 * c + 4));
        vst1q_f32(y + c, vreinterpretq_f32_f64(vzip1q_f64(left, right)));
        vst1q_f32(y + stride + c, vreinterpretq_f32_f64(vzip2q_f64(left, right)));
      }
    }
    return;
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < columns; ++c) {
      y[row * stride + c] = sums[row / 2 * 4 * kColumnPairs + c / 2 * 4 + row % 2 * 2 + c % 2];
    }
  }
}

void multiply_tile(const GemmTile& tile) {
  alignas(64) static constexpr float kZero[kRows * kColumns] = {};
  alignas(64) float sums[kGemmTilePanels][kRows * kColumns];
  for (int64_t column = 0; column < tile.columns; column += kColumns) {
    const uint16_t* w = tile.w + column * tile.depth;
    for (int64_t k = 0; k < tile.depth; k += kPass) {
      const bool last = k + kPass >= tile.depth;
      const int64_t steps = (last ? tile.depth - k : kPass) / kStep;
      for (int64_t row = 0; row < tile.rows; row += kRows) {
        float* own = sums[row / kRows];
        multiply(tile.x + row * tile.depth + k * kRows, w + k * kColumns, steps, k == 0 ? kZero : own, own);
        if (!last) continue;
        const int64_t rows = tile.rows - row < kRows ? tile.rows - row : kRows;
        const int64_t columns = tile.columns - column < kColumns ? tile.columns - column : kColumns;
        store_block(own, rows, columns, tile.y + row * tile.y_stride + column, tile.y_stride);
      }
    }
  }
}

}  // namespace

const GemmKernel& neonbf16_gemm() {
  static constexpr GemmKernel kKernel{.name = "neonbf16",
                                      .usable = cpu_has_bf16,
                                      .row_panel = kRows,
                                      .column_panel = kColumns,
                                      .step = kStep,
                                      .pack_rows = pack_rows,
                                      .pack_columns = pack_columns,
                                      .multiply = multiply_tile};
  return kKernel;
}

}  // namespace ei::kernels

#endif
