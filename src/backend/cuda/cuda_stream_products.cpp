// Products: cuBLASLt for prompts, kernels of our own for the single row of generation.
#include <algorithm>
#include <utility>

#include "backend/cuda/cuda_stream.h"
#include "base/check.h"
#include "kernels/products/cuda/matvec_cuda.h"
#include "kernels/rowwise/cuda/rowwise_cuda.h"

namespace ei {

using kernels::cuda::DeviceRows;

void CudaStream::matmul(const Weight& weight, Matrix x, Matrix y, const Weight* bias) {
  EI_CHECK_EQ(x.cols, weight.cols);
  EI_CHECK_EQ(y.cols, weight.rows);
  if (!open()) return;
  const CudaWeight& matrix = on_device(weight);
  if (phase_ == Phase::kPrompt && bias == nullptr && !matrix.activated) {
    held_ = {&matrix, x, y};
    return;
  }
  const bool timed = phase_ == Phase::kPrompt;  // a generated token is too short for a clock around each product
  if (timed) begin_clock(&times_.matmul_s);
  multiply(matrix, x, y, vector_of(bias));
  if (timed) end_clock();
}

void CudaStream::run_held() {
  const HeldProduct product = std::exchange(held_, {});
  if (product.weight == nullptr) return;
  begin_clock(&times_.matmul_s);
  multiply(*product.weight, product.x, product.y, nullptr);
  end_clock();
}

void CudaStream::add_held(const HeldProduct& product, const DeviceRows& sum) {
  begin_clock(&times_.matmul_s);
  multiply_rows(*product.weight, rows_of(product.x), sum, nullptr, CudaProducts::Into::kAdded);
  end_clock();
}

void CudaStream::multiply(const CudaWeight& weight, Matrix x, Matrix y, const float* bias) {
  const DeviceRows by = weight.device();
  const DeviceRows from = rows_of(x);
  const bool rounded = weight.activated && phase_ == Phase::kPrompt && bias == nullptr;
  const DeviceRows to = rounded ? for_products(y) : wide(y);
  // The phase decides, not the rows: a prompt of one token rounds as it would among others.
  if (phase_ == Phase::kGeneration && kernels::cuda::matvec_reads(from)) {
    auto* out = static_cast<float*>(to.data);
    for (const kernels::cuda::DeviceCodes& part : weight.codes) {
      submit([=, this] { return kernels::cuda::launch_matvec(part, from, out, bias, stream_); }, part.codes, from, out,
             bias);
      out += part.rows;
      if (bias != nullptr) bias += part.rows;
    }
    if (!weight.codes.empty()) return;
    if (kernels::cuda::matvec_takes(by.type, by.cols)) {
      submit([=, this] { return kernels::cuda::launch_matvec(by, from, out, bias, stream_); }, by, from, out, bias);
      return;
    }
  }
  multiply_rows(weight, from, to, bias, CudaProducts::Into::kWritten);
}

// `rows` in another type, in memory that the next product's input takes too. Empty where there is no memory.
DeviceRows CudaStream::converted(const DeviceRows& rows, DType type) {
  if (rows.type == type) return rows;
  const Result<void*> memory = converted_.device(static_cast<size_t>(rows.rows * rows.cols) * dtype_bytes(type));
  if (!memory.ok()) {
    note(memory.error());
    return {};
  }
  const DeviceRows to{*memory, type, rows.rows, rows.cols, rows.cols};
  submit([=, this] { return kernels::cuda::launch_copy_rows(rows, to, stream_); }, rows, to);
  return to;
}

void CudaStream::multiply_rows(const CudaWeight& weight, DeviceRows from, const DeviceRows& to, const float* bias,
                               CudaProducts::Into into) {
  const DeviceRows by = weight.device();
  if (by.data == nullptr) return multiply_codes(weight, from, to, bias, into);
  if (weight.fp8_memory.bytes() > 0 && phase_ == Phase::kPrompt && bias == nullptr && from.stride % 8 == 0) {
    const Result<void*> memory = converted_.device(static_cast<size_t>(kernels::cuda::fp8_bytes(from.rows, from.cols)));
    if (!memory.ok()) return note(memory.error());
    const kernels::cuda::Fp8Rows narrow = kernels::cuda::fp8_rows(*memory, from.rows, from.cols);
    note(kernels::cuda::launch_to_fp8(from, narrow, stream_));
    return note(products_.multiply(weight.fp8(), narrow, to, stream_, into));
  }
  from = converted(from, by.type);
  if (from.data == nullptr) return;
  submit([=, this] { return products_.multiply(by, from, to, bias, stream_, into); }, by, from, to, bias,
         static_cast<int32_t>(into));
}

// Piece by piece of the weights, each decoded into the same memory.
void CudaStream::multiply_codes(const CudaWeight& weight, DeviceRows from, const DeviceRows& to, const float* bias,
                                CudaProducts::Into into) {
  const int64_t at_once = std::max<int64_t>(1, kDecodedBytes / (weight.cols * static_cast<int64_t>(sizeof(uint16_t))));
  const auto bytes = static_cast<size_t>(std::min(at_once, weight.rows) * weight.cols) * sizeof(uint16_t);
  const Result<void*> memory = decoded_.device(bytes);
  if (!memory.ok()) return note(memory.error());
  from = converted(from, DType::kBF16);
  if (from.data == nullptr) return;
  int64_t column = 0;
  for (const kernels::cuda::DeviceCodes& codes : weight.codes) {
    for (int64_t first = 0; first < codes.rows; first += at_once) {
      const int64_t rows = std::min(at_once, codes.rows - first);
      const DeviceRows by{*memory, DType::kBF16, rows, codes.cols, codes.cols};
      DeviceRows part = to;
      part.data = static_cast<std::byte*>(to.data) + static_cast<size_t>(column) * dtype_bytes(to.type);
      part.cols = rows;
      const float* add = bias != nullptr ? bias + column : nullptr;
      submit([=, this] { return kernels::cuda::launch_decode_codes(codes, first, rows, by.data, stream_); },
             codes.codes, first, by);
      submit([=, this] { return products_.multiply(by, from, part, add, stream_, into); }, by, from, part, add,
             static_cast<int32_t>(into));
      column += rows;
    }
  }
}

}  // namespace ei
