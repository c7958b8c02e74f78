// Products of a few rows by weights (y[m, n] = x[m, k] W[n, k]^T), for generated tokens: of four bits as the model file
// has them (Q4_1), or of eight (Q8_0), as ggml repacks them (four rows interleaved by eight numbers) or as the file has
// them. Rows of x become
// integers of eight bits, by blocks of 32 with a scale each. Every element of y adds its blocks in one order, by one
// chain of fused multiply-adds: results depend neither on the number of rows nor on the workers, so a token comes out
// alone as among others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/workers.h"
#include "tensor/matrix.h"

namespace ei::kernels {

// Four rows of weights by all rows of x.
struct FewRowsTile {
  // Q4_1: [4, blocks], of a scale and a minimum in f16 and 16 bytes of two numbers each. Q8_0: [4, blocks], of a scale
  // in f16 and 32 numbers; interleaved: [blocks], of the four rows' scales and four times eight numbers of each row.
  const std::byte* weights = nullptr;
  int64_t row_bytes = 0;         // of the weights
  int64_t blocks = 0;            // of 32 columns
  const std::byte* x = nullptr;  // packed
  int64_t rows = 0;              // of x
  float* y = nullptr;            // [rows, 4]
  int64_t y_stride = 0;
};

struct FewRowsKernel {
  std::string_view name;        // of the attention variant that EI_CPU_ISA caps it by
  bool (*usable)();             // does this CPU have it?
  size_t pair_block_bytes = 0;  // a block of two rows of x, packed
  // A pair of rows; `second` is null where there is none. A single row of x is a pair of its own kind: `alone`.
  void (*pack)(const float* first, const float* second, int64_t blocks, bool alone, std::byte* to);
  void (*multiply)(const FewRowsTile& tile);

  size_t packed_bytes(int64_t rows, int64_t cols) const {
    return static_cast<size_t>((rows + 1) / 2 * (cols / 32)) * pair_block_bytes;
  }
};

// The kernel of this CPU for such weights, or null where there is none; `isa` caps it as it caps attention's. Q8_0: two
// rows and more, with the bits that ggml gives each of them alone.
enum class FewRowsForm : uint8_t { kNone, kQ4_1, kQ8_0, kQ8Interleaved };
const FewRowsKernel* choose_few_rows(FewRowsForm form, std::string_view isa);
#if defined(__aarch64__)
const FewRowsKernel& i8mm_few_rows();
const FewRowsKernel& i8mm_few_rows_q8();
#elif defined(__x86_64__)
const FewRowsKernel& avx512_few_rows_q8();
#endif

// Both are called by every worker with the same arguments; `queue` starts reset. All workers must have left
// pack_few_rows() before one enters few_rows().
void pack_few_rows(const FewRowsKernel& kernel, Matrix x, std::byte* to, WorkQueue& queue);
struct FewRowsParams {
  const std::byte* weights = nullptr;  // [y.cols, row_bytes]
  int64_t row_bytes = 0;
  int64_t k = 0;                 // a multiple of 32
  const std::byte* x = nullptr;  // packed
  Matrix y;                      // [m, n], n a multiple of 4
  int workers = 1;               // that come, about
};
void few_rows(const FewRowsKernel& kernel, const FewRowsParams& params, WorkQueue& queue);

}  // namespace ei::kernels
