// Products: cuBLASLt for prompts, kernels of our own for the single row of generation.
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
  const bool timed = phase_ == Phase::kPrompt;  // a generated token is too short for a clock around each product
  if (timed) clock_.begin(stream_, &times_.matmul_s);
  multiply(on_device(weight), x, y, vector_of(bias));
  if (timed) clock_.end(stream_);
}

void CudaStream::multiply(const CudaWeight& weight, Matrix x, Matrix y, const float* bias) {
  const DeviceRows by = weight.device();
  DeviceRows from = rows_of(x);
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
  if (weight.fp8_memory.bytes() > 0 && phase_ == Phase::kPrompt && bias == nullptr && from.stride % 8 == 0) {
    const Result<void*> memory = converted_.device(static_cast<size_t>(kernels::cuda::fp8_bytes(x.rows, x.cols)));
    if (!memory.ok()) return note(memory.error());
    const kernels::cuda::Fp8Rows narrow = kernels::cuda::fp8_rows(*memory, x.rows, x.cols);
    note(kernels::cuda::launch_to_fp8(from, narrow, stream_));
    return note(products_.multiply(weight.fp8(), narrow, to, stream_));
  }
  if (from.type != by.type) {
    const auto bytes = static_cast<size_t>(x.rows * x.cols) * dtype_bytes(by.type);
    const Result<void*> memory = converted_.device(bytes);
    if (!memory.ok()) return note(memory.error());
    const DeviceRows converted{*memory, by.type, x.rows, x.cols, x.cols};
    submit([=, this] { return kernels::cuda::launch_copy_rows(from, converted, stream_); }, from, converted);
    from = converted;
  }
  submit([=, this] { return products_.multiply(by, from, to, bias, stream_); }, by, from, to, bias);
}

}  // namespace ei
