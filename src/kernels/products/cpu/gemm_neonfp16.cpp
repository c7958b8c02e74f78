// Products on ARM CPUs with half-precision arithmetic but no bf16: 8 x 16 blocks, runs of 32 products in half precision
// joined in fp32 (neon_fp16.h). Every row of x and of W is scaled by a power of two so that its largest element lies
// between 16 and 32: a run then stays below 32 768, and elements down to 2^-19 of the largest keep eleven bits.
#if defined(__aarch64__)

#include <algorithm>
#include <cmath>

#include "kernels/simd/arm_features.h"
#include "kernels/simd/neon_fp16.h"
#include "kernels/variants.h"

namespace ei::kernels {
namespace {

constexpr int64_t kStep = 4;
constexpr int64_t kFacts = 4;  // the powers of two, as floats behind a panel
// A pass over k: 16 KiB of W stay in the first-level cache while the tile's panels of x go by.
constexpr int64_t kPass = 512;
static_assert(kPass % kHalfRun == 0);

// In lanes i of the eight results the elements i of the rows.
inline void transpose(float16x8_t (&m)[8]) {
  float16x8_t t[8];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = vzip1q_f16(m[i], m[i + 4]);
      t[2 * i + 1] = vzip2q_f16(m[i], m[i + 4]);
    }
    std::copy(t, t + 8, m);
  }
}

float power_of(const float* row, int64_t cols) {
  float largest = 0;
  for (int64_t k = 0; k < cols; ++k) largest = std::max(largest, std::abs(row[k]));
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  return std::ldexp(1.0f, std::clamp(std::ilogb(largest) - 4, -120, 120));
}

// [k, kPanel], then kPanel powers of two.
template <int64_t kPanel>
void pack(const float* from, int64_t stride, int64_t rows, int64_t cols, uint16_t* to) {
  const int64_t depth = (cols + kStep - 1) / kStep * kStep;
  float powers[kPanel];
  for (int64_t row = 0; row < kPanel; ++row) powers[row] = row < rows ? power_of(from + row * stride, cols) : 1;
  std::copy(powers, powers + kPanel, reinterpret_cast<float*>(to + depth * kPanel));
  for (int64_t first = 0; first < kPanel; first += 8) {
    for (int64_t k = 0; k < depth; k += 8) {
      float16x8_t block[8];
      for (int64_t i = 0; i < 8; ++i) {
        float rest[8] = {};
        const float* row = from + (first + i) * stride + k;
        if (first + i >= rows) {
          row = rest;
        } else if (cols - k < 8) {
          std::copy(row, row + (cols - k), rest);
          row = rest;
        }
        const float factor = 1 / powers[first + i];
        block[i] = vcvt_high_f16_f32(vcvt_f16_f32(vmulq_n_f32(vld1q_f32(row), factor)),
                                     vmulq_n_f32(vld1q_f32(row + 4), factor));
      }
      transpose(block);
      for (int64_t i = 0; i < std::min<int64_t>(8, depth - k); ++i)
        vst1q_u16(to + (k + i) * kPanel + first, vreinterpretq_u16_f16(block[i]));
    }
  }
}

void store_block(const float* sums, const float* row_powers, const float* column_powers, int64_t rows, int64_t columns,
                 float* y, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row, sums += kHalfColumns, y += stride) {
    float line[kHalfColumns];
    for (int64_t c = 0; c < kHalfColumns; c += 4) {
      const float32x4_t scaled = vmulq_n_f32(vld1q_f32(sums + c), row_powers[row]);
      vst1q_f32(line + c, vmulq_f32(scaled, vld1q_f32(column_powers + c)));
    }
    std::copy(line, line + columns, y);
  }
}

void multiply_tile(const GemmTile& tile) {
  const int64_t depth = tile.depth - kFacts;
  alignas(64) float sums[kGemmTilePanels][kHalfRows * kHalfColumns];
  for (int64_t column = 0; column < tile.columns; column += kHalfColumns) {
    const auto* w = reinterpret_cast<const float16_t*>(tile.w + column * tile.depth);
    for (int64_t pass = 0; pass < depth; pass += kPass) {
      const int64_t end = std::min(pass + kPass, depth);
      for (int64_t row = 0; row < tile.rows; row += kHalfRows) {
        const auto* x = reinterpret_cast<const float16_t*>(tile.x + row * tile.depth);
        float* own = sums[row / kHalfRows];
        if (pass == 0) std::fill(own, own + kHalfRows * kHalfColumns, 0.0f);
        for (int64_t k = pass; k < end; k += kHalfRun) {
          add_half_products(x + k * kHalfRows, w + k * kHalfColumns, std::min<int64_t>(kHalfRun, end - k), own);
        }
        if (end < depth) continue;
        store_block(own, reinterpret_cast<const float*>(x + depth * kHalfRows),
                    reinterpret_cast<const float*>(w + depth * kHalfColumns),
                    std::min<int64_t>(kHalfRows, tile.rows - row),
                    std::min<int64_t>(kHalfColumns, tile.columns - column), tile.y + row * tile.y_stride + column,
                    tile.y_stride);
      }
    }
  }
}

}  // namespace

const GemmKernel& neonfp16_gemm() {
  static constexpr GemmKernel kKernel{.name = "neonfp16",
                                      .numbers = "fp16",
                                      .usable = cpu_has_fp16,
                                      .row_panel = kHalfRows,
                                      .column_panel = kHalfColumns,
                                      .step = kStep,
                                      .facts = kFacts,
                                      .pack_rows = pack<kHalfRows>,
                                      .pack_columns = pack<kHalfColumns>,
                                      .multiply = multiply_tile};
  return kKernel;
}

}  // namespace ei::kernels

#endif
