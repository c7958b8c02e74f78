// Dense maths for prompts through oneDNN: y[M, N] = x[M, K] · W[N, K]^T, inputs rounded to bf16, sums in f32.
//
// W is kept as panels of kPanelRows output rows, each in the blocked layout oneDNN asks for. All workers of the
// caller's pool run() together; each multiplies (row tile of x) × (a few panels) with a single-threaded primitive, so
// oneDNN's own threads never start. The cut into tiles and panels depends on M and N only: results do not depend on the
// workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/workers.h"

namespace ei {

class OnednnMatmul {
 public:
  static constexpr int64_t kPanelRows = 512;

  // Writes the f32 rows [begin, end) of W densely to `rows`, [end - begin, K]. At most 16 rows are asked for at once.
  // Called by whoever packs, so it must be safe to call from several threads when repack() is.
  using RowSource = std::function<void(int64_t begin, int64_t end, float* rows)>;

  // A packed W. Created by pack() or allocate(), read by run().
  struct Packed {
    virtual ~Packed() = default;
    int64_t rows = 0;  // N
    int64_t cols = 0;  // K
    size_t bytes = 0;
  };

  static bool built();            // linked at all; without bf16 kernels it computes the same values in f32, slowly
  static bool available();        // linked, and oneDNN multiplies bf16 natively on this CPU (AMX-BF16, AVX512-BF16)
  static std::string describe();  // "oneDNN 2.6.3 brg:avx512_core_amx_bf16", or "" when not built

  // Bytes of a packed [rows_n, cols_k] matrix; 0 when not built.
  static size_t packed_bytes(int64_t rows_n, int64_t cols_k);
  static Result<std::unique_ptr<Packed>> pack(int64_t rows_n, int64_t cols_k, const RowSource& source);

  // The two halves of pack(), for a scratch that is refilled: allocate() once, then repack() any rows at any time.
  // Workers may repack disjoint row ranges of one Packed at the same time (begin a multiple of 16 is fastest), but not
  // while run() reads it.
  static Result<std::unique_ptr<Packed>> allocate(int64_t rows_n, int64_t cols_k);
  static void repack(Packed& packed, int64_t begin, int64_t end, const RowSource& source);

  // Called by every worker with the same arguments; `queue` starts reset, `scratch` is shared by all, 64-byte aligned.
  // Strides are in floats. x and y must not overlap.
  static void run(const Packed& packed, const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t m,
                  void* scratch, Worker worker, WorkQueue& queue);
  static size_t scratch_bytes(const Packed& packed, int64_t m, int workers);
};

}  // namespace ei
