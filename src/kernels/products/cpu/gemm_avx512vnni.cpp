// Products of 8-bit numbers on x86 CPUs with AVX-512 and VNNI but no bf16 (contract in gemm.h): 12 x 16 blocks of y.
// Rows of x and of W are rounded in blocks of 32 to integers from -127 to 127 with a scale of fp32 each, as ggml rounds
// x; Q8_0 weights come out as they are. The 32 products of a block are added exactly, blocks in fp32.
//
// VNNI multiplies bytes without a sign by bytes with one: W is moved up by 128, and every sum begins with what that
// adds.
#if defined(__x86_64__)

#include <algorithm>
#include <cstring>

#include "base/workers.h"
#include "kernels/products/gemm.h"
#include "kernels/simd/vec_avx512.h"
#include "kernels/simd/x86_features.h"
#include "kernels/variants.h"

namespace ei::kernels {
namespace {

constexpr int64_t kStep = 32;  // numbers of a block
constexpr int64_t kFours = kStep / 4;
constexpr int64_t kRows = 12;     // of x in a panel
constexpr int64_t kColumns = 16;  // rows of W in a panel
// A pass over k: 10 KiB of W stay in the first-level cache while the tile's panels of x go by, 8 KiB each.
constexpr int64_t kPassSteps = 16;

struct RowStep {
  int8_t numbers[kRows][kStep];
  int32_t begin[kRows];  // -128 times the sum of the row's numbers
  float scale[kRows];
};
struct ColumnStep {
  uint8_t numbers[kFours][kColumns][4];  // moved up by 128
  float scale[kColumns];
  std::byte rest[64];  // both sides take as many bytes a number
};
constexpr int64_t kStepElements = sizeof(RowStep) / kRows / sizeof(uint16_t);
static_assert(sizeof(RowStep) == kRows * kStepElements * sizeof(uint16_t));
static_assert(sizeof(ColumnStep) == kColumns * kStepElements * sizeof(uint16_t));

// Elements [at, at + 16) of a row of `cols`, zeros behind its end.
__m512 load(const float* row, int64_t cols, int64_t at) {
  if (at + 16 <= cols) return _mm512_loadu_ps(row + at);
  return at < cols ? Vec16::load_first(row + at, static_cast<int>(cols - at), 0).v : _mm512_setzero_ps();
}

// 32 numbers from `at` on; their scale.
float round_block(const float* row, int64_t cols, int64_t at, int8_t* to) {
  const __m512 low = load(row, cols, at);
  const __m512 high = load(row, cols, at + 16);
  const float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
  const __m512 inverse = _mm512_set1_ps(largest > 0 ? 127.0f / largest : 0.0f);
  const auto whole = [&](__m512 values) {
    return _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(values, inverse)));
  };
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), whole(low));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16), whole(high));
  return largest / 127.0f;
}

void pack_rows(const float* from, int64_t stride, int64_t rows, int64_t cols, uint16_t* to) {
  auto* step = reinterpret_cast<RowStep*>(to);
  for (int64_t k = 0; k < cols; k += kStep, ++step) {
    std::memset(static_cast<void*>(step), 0, sizeof *step);
    for (int64_t row = 0; row < rows; ++row) {
      int8_t* numbers = step->numbers[row];
      step->scale[row] = round_block(from + row * stride, cols, k, numbers);
      const __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers)));
      step->begin[row] = -128 * _mm512_reduce_add_epi32(_mm512_madd_epi16(wide, _mm512_set1_epi16(1)));
    }
  }
}

void pack_columns(const float* from, int64_t stride, int64_t rows, int64_t cols, uint16_t* to) {
  auto* step = reinterpret_cast<ColumnStep*>(to);
  for (int64_t k = 0; k < cols; k += kStep, ++step) {
    std::memset(static_cast<void*>(step), 0, sizeof *step);
    for (int64_t row = 0; row < kColumns; ++row) {
      int8_t numbers[kStep] = {};
      if (row < rows) step->scale[row] = round_block(from + row * stride, cols, k, numbers);
      for (int64_t i = 0; i < kStep; ++i) step->numbers[i / 4][row][i % 4] = static_cast<uint8_t>(numbers[i] + 128);
    }
  }
}

// to = from + x w^T over some steps of one panel each. Not inlined: on its own it keeps its sums in registers.
[[gnu::noinline]] void add(const RowStep* x, const ColumnStep* w, int64_t steps, const float* from, float* to,
                           int64_t to_stride) {
  __m512 sums[kRows];
#pragma GCC unroll 12
  for (int row = 0; row < kRows; ++row) sums[row] = _mm512_loadu_ps(from + row * kColumns);
  for (; steps > 0; --steps, ++x, ++w) {
    __m512i dots[kRows];
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) dots[row] = _mm512_set1_epi32(x->begin[row]);
#pragma GCC unroll 8
    for (int four = 0; four < kFours; ++four) {
      const __m512i columns = _mm512_loadu_si512(w->numbers[four]);
#pragma GCC unroll 12
      for (int row = 0; row < kRows; ++row) {
        int32_t numbers = 0;
        std::memcpy(&numbers, x->numbers[row] + 4 * four, sizeof numbers);
        dots[row] = _mm512_dpbusd_epi32(dots[row], columns, _mm512_set1_epi32(numbers));
      }
    }
    const __m512 scale = _mm512_loadu_ps(w->scale);
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x->scale[row]));
      sums[row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[row]), both, sums[row]);
    }
  }
#pragma GCC unroll 12
  for (int row = 0; row < kRows; ++row, to += to_stride) _mm512_storeu_ps(to, sums[row]);
}

void multiply(const GemmTile& tile) {
  alignas(64) static constexpr float kZero[kRows * kColumns] = {};
  alignas(64) float sums[kGemmTilePanels][kRows * kColumns];
  const int64_t steps = tile.depth / kStepElements;
  const int64_t passes = (steps + kPassSteps - 1) / kPassSteps;
  for (int64_t column = 0; column < tile.columns; column += kColumns) {
    const auto* w = reinterpret_cast<const ColumnStep*>(tile.w + column * tile.depth);
    const int64_t columns = std::min(kColumns, tile.columns - column);
    for (int64_t pass = 0; pass < passes; ++pass) {
      const Range range = even_share(steps, {static_cast<int>(pass), static_cast<int>(passes)});
      const bool last = pass + 1 == passes;
      for (int64_t row = 0; row < tile.rows; row += kRows) {
        const auto* x = reinterpret_cast<const RowStep*>(tile.x + row * tile.depth);
        float* own = sums[row / kRows];
        float* y = tile.y + row * tile.y_stride + column;
        const int64_t rows = std::min(kRows, tile.rows - row);
        const bool whole = last && rows == kRows && columns == kColumns;
        add(x + range.begin, w + range.begin, range.end - range.begin, pass == 0 ? kZero : own, whole ? y : own,
            whole ? tile.y_stride : kColumns);
        if (!last || whole) continue;
        for (int64_t i = 0; i < rows; ++i) std::copy_n(own + i * kColumns, columns, y + i * tile.y_stride);
      }
    }
  }
}

}  // namespace

const GemmKernel& avx512vnni_gemm() {
  static constexpr GemmKernel kKernel{.name = "avx512",
                                      .numbers = "int8",
                                      .usable = cpu_has_avx512vnni,
                                      .row_panel = kRows,
                                      .column_panel = kColumns,
                                      .step = kStep,
                                      .step_elements = kStepElements,
                                      .pack_rows = pack_rows,
                                      .pack_columns = pack_columns,
                                      .multiply = multiply};
  return kKernel;
}

}  // namespace ei::kernels

#endif
