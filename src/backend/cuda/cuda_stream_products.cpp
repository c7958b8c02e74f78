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
  note(multiply(on_device(weight), x, y, vector_of(bias)));
  if (timed) clock_.end(stream_);
}

Status CudaStream::multiply(const CudaWeight& weight, Matrix x, Matrix y, const float* bias) {
  const DeviceRows by = weight.device();
  DeviceRows from = rows_of(x);
  const bool rounded = weight.activated && phase_ == Phase::kPrompt && bias == nullptr;
  const DeviceRows to = rounded ? for_products(y) : wide(y);
  // The phase decides, not the rows: a prompt of one token rounds as it would among others.
  if (phase_ == Phase::kGeneration && x.rows == 1) {
    auto* out = static_cast<float*>(to.data);
    for (const kernels::cuda::DeviceCodes& part : weight.codes) {
      EI_RETURN_IF_ERROR(kernels::cuda::launch_matvec(part, from, out, bias, stream_));
      out += part.rows;
      if (bias != nullptr) bias += part.rows;
    }
    if (!weight.codes.empty()) return {};
    if (kernels::cuda::matvec_takes(by.type, by.cols))
      return kernels::cuda::launch_matvec(by, from, out, bias, stream_);
  }
  if (from.type != by.type) {
    const auto bytes = static_cast<size_t>(x.rows * x.cols) * dtype_bytes(by.type);
    EI_ASSIGN_OR_RETURN(void* memory, converted_.device(bytes));
    const DeviceRows converted{memory, by.type, x.rows, x.cols, x.cols};
    EI_RETURN_IF_ERROR(kernels::cuda::launch_copy_rows(from, converted, stream_));
    from = converted;
  }
  return products_.multiply(by, from, to, bias, stream_);
}

}  // namespace ei
