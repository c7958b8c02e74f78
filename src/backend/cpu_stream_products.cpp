// The matrix products of a chunk: by ggml on the weights as stored, or by a provider of dense maths.
#include <algorithm>

#include "backend/cpu_stream.h"
#include "base/check.h"

namespace ei {

namespace {

constexpr int64_t kUnpackPiece = 64;  // rows a worker unpacks at a time

}  // namespace

void CpuStream::matmul(const Weight& weight, Matrix x, Matrix y, const Weight* bias) {
  EI_CHECK_EQ(x.cols, weight.cols);
  EI_CHECK_EQ(y.cols, weight.rows);
  const auto& own = static_cast<const CpuWeight&>(weight);
  // Generation reads every weight for one row: the quantised form is half the bytes or less.
  const bool prompt = dense_ != nullptr && phase_ == Phase::kPrompt;
  if (prompt && own.packed != nullptr) {
    matmul_packed(*own.packed, x, y);
  } else if (prompt && own.unpack && phase_tokens_ >= dense_->unpack_tokens()) {
    matmul_unpacked(own, x, y);
  } else if (const kernels::FewRowsKernel* few = few_kernel(own, x.rows)) {
    matmul_few(*few, own, x, y);
  } else if (phase_ == Phase::kGeneration && x.rows > 1 && !tokens_together(own)) {
    for (int64_t row = 0; row < x.rows; ++row) matmul_ggml(own, x.row_range(row, 1), y.row_range(row, 1));
  } else {
    matmul_ggml(own, x, y);
  }
  for (const ScaledRows& part : own.scaled) {
    add_rows(y.rows, [out = y.columns(part.first_row, part.rows), scale = part.scale](Range rows) {
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        float* values = out.data + row * out.stride;
        for (int64_t i = 0; i < out.cols; ++i) values[i] *= scale;
      }
    });
  }
  if (bias != nullptr) {
    add_rows(y.rows, [this, y, values = static_cast<const CpuWeight*>(bias)->vector.data()](Range rows) {
      rowwise_.add_bias(values, y, rows);
    });
  }
}

// A product of ggml's cannot be interrupted, so large ones are cut by rows, into few pieces: each is a node.
int64_t CpuStream::rows_at_once(int64_t rows, int64_t weights) const {
  constexpr int64_t kMultiplyAdds = int64_t{1} << 32;
  constexpr int64_t kMostPieces = 8;
  constexpr int64_t kWhole = 32;  // ggml's kernels take rows by fours and more
  const int64_t piece = std::max({kMultiplyAdds / weights, (rows + kMostPieces - 1) / kMostPieces, int64_t{1}});
  return (piece + kWhole - 1) / kWhole * kWhole;
}

int64_t CpuStream::rows_together(const CpuWeight& weight) const {
  if (phase_ != Phase::kPrompt) return 1;
#if defined(__aarch64__)
  // Repacked weights are multiplied by fours; of the others f16 and tiles of K-quants from eight on.
  const bool repacked = std::all_of(weight.parts.begin(), weight.parts.end(),
                                    [](const WeightPart& part) { return part.tensor->buffer != nullptr; });
  return repacked ? 4 : 8;
#else
  static_cast<void>(weight);
  return 16;  // the most that repacked weights are multiplied by
#endif
}

bool CpuStream::tokens_together(const CpuWeight& weight) const {
  return std::all_of(weight.parts.begin(), weight.parts.end(),
                     [&](const WeightPart& part) { return device_.rows_alike(*part.tensor); });
}

const kernels::FewRowsKernel* CpuStream::few_kernel(const CpuWeight& weight, int64_t rows) const {
  if (phase_ != Phase::kGeneration) return nullptr;
  if (weight.few == kernels::FewRowsForm::kQ4_1) return few_q4_;
  // A row alone is ggml's, which reads such weights as fast as they come.
  if (rows == 1) return nullptr;
  if (weight.few == kernels::FewRowsForm::kQ8_0) return few_q8_;
  return weight.few == kernels::FewRowsForm::kQ8Interleaved ? few_interleaved_ : nullptr;
}

void CpuStream::matmul_few(const kernels::FewRowsKernel& kernel, const CpuWeight& weight, Matrix x, Matrix y) {
  auto* packed = static_cast<std::byte*>(grow(dense_scratch_, kernel.packed_bytes(x.rows, x.cols)));
  if (packed == nullptr) return;
  add_queue([&kernel, x, packed](WorkQueue& queue) { kernels::pack_few_rows(kernel, x, packed, queue); },
            &matmul_own_s_);
  for (const WeightPart& part : weight.parts) {
    const kernels::FewRowsParams params{.weights = static_cast<const std::byte*>(part.tensor->data),
                                        .row_bytes = static_cast<int64_t>(part.tensor->nb[1]),
                                        .k = x.cols,
                                        .x = packed,
                                        .y = y.columns(part.first_row, part.rows),
                                        .workers = device_.threads()};
    add_queue([&kernel, params](WorkQueue& queue) { kernels::few_rows(kernel, params, queue); }, &matmul_own_s_);
  }
}

// Rows that do not fill up a multiple of rows_together() are multiplied in a copy, with rows of zeros behind them. Few
// rows are copied altogether: the weights are then read once.
void CpuStream::matmul_ggml(const CpuWeight& weight, Matrix x, Matrix y) {
  constexpr int64_t kFew = 64;
  const int64_t together = rows_together(weight);
  const int64_t rest = x.rows % together;
  if (rest == 0) return multiply_ggml(weight, x, y);
  const int64_t copied = x.rows <= kFew ? x.rows : rest;
  const int64_t filled = (copied + together - 1) / together * together;
  const int64_t whole = x.rows - copied;
  // With the stride of x: ggml has other kernels for rows that lie apart.
  auto* memory =
      static_cast<float*>(grow(rest_scratch_, static_cast<size_t>(filled * (x.stride + y.cols)) * sizeof(float)));
  if (memory == nullptr) return;
  const Matrix from{memory, filled, x.cols, x.stride};
  const Matrix to{memory + filled * x.stride, filled, y.cols, y.cols};
  if (whole > 0) multiply_ggml(weight, x.row_range(0, whole), y.row_range(0, whole));
  add_rows(filled, [=](Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      float* out = from.data + row * from.stride;
      if (row < copied) {
        std::copy_n(x.data + (whole + row) * x.stride, x.cols, out);
      } else {
        std::fill_n(out, x.cols, 0.0f);
      }
    }
  });
  multiply_ggml(weight, from, to);
  add_rows(copied, [=](Range rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      std::copy_n(to.data + row * to.stride, y.cols, y.data + (whole + row) * y.stride);
    }
  });
}

void CpuStream::multiply_ggml(const CpuWeight& weight, Matrix x, Matrix y) {
  for (const WeightPart& part : weight.parts) {
    const int64_t piece = rows_at_once(x.rows, part.rows * weight.cols);
    for (int64_t first = 0; first < x.rows; first += piece) {
      const int64_t rows = std::min(piece, x.rows - first);
      const Matrix from = x.row_range(first, rows);
      const Matrix to = y.row_range(first, rows).columns(part.first_row, part.rows);
      if (rows > 1 && GgmlDevice::rows_lie_together(*part.tensor) && (from.stride > from.cols || to.stride > to.cols)) {
        multiply_together(part, from, to);
      } else {
        add_product(part, from, to);
      }
    }
  }
}

// Between copies of rows without anything in between.
void CpuStream::multiply_together(const WeightPart& part, Matrix x, Matrix y) {
  auto* memory =
      static_cast<float*>(grow(together_scratch_, static_cast<size_t>(x.rows * (x.cols + y.cols)) * sizeof(float)));
  if (memory == nullptr) return;
  const Matrix from{memory, x.rows, x.cols, x.cols};
  const Matrix to{memory + x.rows * x.cols, y.rows, y.cols, y.cols};
  const auto copy = [this](Matrix source, Matrix target) {
    add_rows(source.rows, [=](Range rows) {
      for (int64_t row = rows.begin; row < rows.end; ++row)
        std::copy_n(source.data + row * source.stride, source.cols, target.data + row * target.stride);
    });
  };
  copy(x, from);
  add_product(part, from, to);
  copy(to, y);
}

void CpuStream::add_product(const WeightPart& part, Matrix x, Matrix y) {
  const auto place = [](ggml_tensor* tensor, Matrix rows) {
    tensor->data = rows.data;
    tensor->nb[1] = static_cast<size_t>(rows.stride) * sizeof(float);
    tensor->nb[2] = tensor->nb[3] = tensor->nb[1] * static_cast<size_t>(rows.rows);
  };
  ggml_tensor* input = ggml_new_tensor_2d(context_, GGML_TYPE_F32, x.cols, x.rows);
  place(input, x);
  ggml_tensor* product = ggml_mul_mat(context_, part.tensor, input);
  place(product, y);
  add_node(product);
}

void CpuStream::matmul_packed(const DenseProvider::Packed& packed, Matrix x, Matrix y) {
  void* memory = grow(dense_scratch_, dense_->scratch_bytes(packed, x.rows, device_.threads()));
  if (memory == nullptr) return;
  const DenseProvider::Product product{packed, x, y, memory};
  add([this, product, &queue = new_queue()](Worker) { dense_->prepare(product, queue); }, &matmul_own_s_);
  add([this, product, &queue = new_queue()](Worker worker) { dense_->multiply(product, worker, queue); },
      &matmul_own_s_);
}

// Slice by slice, so that little memory is needed and a slice is still in the cache when it is multiplied.
void CpuStream::matmul_unpacked(const CpuWeight& weight, Matrix x, Matrix y) {
  const int64_t slice = DenseProvider::slice_rows(weight.rows, weight.cols, dense_->whole_slice());
  for (int64_t first = 0; first < weight.rows; first += slice) {
    const int64_t rows = std::min(slice, weight.rows - first);
    std::unique_ptr<DenseProvider::Packed>& packed = unpacked_[{rows, weight.cols}];
    if (packed == nullptr) {
      auto allocated = dense_->allocate(rows, weight.cols);
      if (!allocated.ok()) {
        if (failed_.ok()) failed_ = allocated.error();
        return;
      }
      packed = std::move(allocated).value();
    }
    void* memory = grow(dense_scratch_, dense_->scratch_bytes(*packed, x.rows, device_.threads()));
    if (memory == nullptr) return;
    const DenseProvider::Product product{*packed, x, y.columns(first, rows), memory};
    const bool prepare = first == 0;
    add(
        [this, &weight, first, product, prepare, to = packed.get(), &pieces = new_queue(),
         &queue = new_queue()](Worker) {
          const auto source = [&](int64_t begin, int64_t end, float* out) {
            weight.unpack->read(first + begin, first + end, out);
          };
          if (prepare) dense_->prepare(product, queue);
          for (int64_t piece; (piece = pieces.take()) < (to->rows + kUnpackPiece - 1) / kUnpackPiece;) {
            const int64_t begin = piece * kUnpackPiece;
            dense_->repack(*to, begin, std::min(begin + kUnpackPiece, to->rows), source);
          }
        },
        &matmul_own_s_);
    add(
        [this, &weight, first, product, &queue = new_queue()](Worker worker) {
          if (worker.index == 0) weight.unpack->release(first, first + product.weight.rows);
          dense_->multiply(product, worker, queue);
        },
        &matmul_own_s_);
  }
}

}  // namespace ei
