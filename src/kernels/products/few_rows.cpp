#include "kernels/products/few_rows.h"

#include <algorithm>

namespace ei::kernels {

namespace {
constexpr int64_t kTileWeights = 4;  // rows of weights that a kernel takes
// Few pieces for each worker, and not small ones: memory is fetched ahead along a piece, and every new one begins
// without.
constexpr int64_t kPiecesOfWorker = 4;
constexpr int64_t kLeastWeights = 32;

int64_t piece_weights(int64_t weights, int workers) {
  const int64_t pieces = kPiecesOfWorker * workers;
  const int64_t share = (weights + pieces - 1) / pieces;
  return std::max((share + kTileWeights - 1) / kTileWeights * kTileWeights, kLeastWeights);
}
}  // namespace

const FewRowsKernel* choose_few_rows(FewRowsForm form, std::string_view isa) {
  const FewRowsKernel* kernel = nullptr;
#if defined(__aarch64__)
  if (form == FewRowsForm::kQ4_1) kernel = &i8mm_few_rows();
  if (form == FewRowsForm::kQ8Interleaved) kernel = &i8mm_few_rows_q8();
#elif defined(__x86_64__)
  if (form == FewRowsForm::kQ8_0) kernel = &avx512_few_rows_q8();
#endif
  static_cast<void>(form);
  return kernel != nullptr && (isa.empty() || isa == kernel->name) && kernel->usable() ? kernel : nullptr;
}

void pack_few_rows(const FewRowsKernel& kernel, Matrix x, std::byte* to, WorkQueue& queue) {
  const int64_t blocks = x.cols / 32;
  for (int64_t pair; (pair = queue.take()) < (x.rows + 1) / 2;) {
    const float* first = x.data + 2 * pair * x.stride;
    const float* second = 2 * pair + 1 < x.rows ? first + x.stride : nullptr;
    kernel.pack(first, second, blocks, x.rows == 1, to + static_cast<size_t>(pair * blocks) * kernel.pair_block_bytes);
  }
}

void few_rows(const FewRowsKernel& kernel, const FewRowsParams& params, WorkQueue& queue) {
  const Matrix& y = params.y;
  const int64_t size = piece_weights(y.cols, params.workers);
  for (int64_t piece; (piece = queue.take()) < (y.cols + size - 1) / size;) {
    const int64_t end = std::min(y.cols, (piece + 1) * size);
    for (int64_t column = piece * size; column < end; column += kTileWeights) {
      kernel.multiply({.weights = params.weights + column * params.row_bytes,
                       .row_bytes = params.row_bytes,
                       .blocks = params.k / 32,
                       .x = params.x,
                       .rows = y.rows,
                       .y = y.data + column,
                       .y_stride = y.stride});
    }
  }
}

}  // namespace ei::kernels
