#include <algorithm>

#include "kernels/products/cuda/matvec.cuh"
#include "kernels/products/cuda/matvec_cuda.h"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = kMatvecWarps * 32;
constexpr int kMostShared = 96 * 1024;

template <typename Form, typename X>
__global__ void __launch_bounds__(kThreads, 4)
    matvec_kernel(Form form, int64_t rows, int64_t cols, const X* x, float* y, const float* bias) {
  extern __shared__ uint4 shared_x[];
  matvec_rows(form, rows, cols, x, y, bias, reinterpret_cast<X*>(shared_x));
}

// As many blocks as the GPU holds at once: each has its copy of x.
template <typename Kernel>
cudaError_t blocks_at_once(Kernel* kernel, size_t shared, int* blocks) {
  int device = 0;
  int sms = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, kThreads, shared);
  *blocks = std::max(1, *blocks) * sms;
  return error;
}

template <typename Form>
Status launch(const Form& form, int64_t rows, int64_t cols, const DeviceRows& x, float* y, const float* bias,
              void* stream) {
  EI_CHECK(matvec_reads(x) && x.cols == cols);
  constexpr int64_t kStep = 32 * Form::kEach;
  cudaError_t error = cudaSuccess;
  with_row_type(x.type, [&](auto element) {
    using X = decltype(element);
    auto* kernel = matvec_kernel<Form, X>;
    static const cudaError_t allowed =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared);
    const size_t shared = static_cast<size_t>((cols + kStep - 1) / kStep * kStep) * sizeof(X);
    int most = 0;
    error = allowed;
    if (error == cudaSuccess) error = blocks_at_once(kernel, shared, &most);
    if (error != cudaSuccess) return;
    const auto blocks = static_cast<unsigned>(std::min<int64_t>((rows + kMatvecWarps - 1) / kMatvecWarps, most));
    kernel<<<blocks, kThreads, shared, static_cast<cudaStream_t>(stream)>>>(form, rows, cols,
                                                                            static_cast<const X*>(x.data), y, bias);
  });
  EI_RETURN_IF_ERROR(cuda_status(error, "matvec"));
  return launched("matvec");
}

bool takes(int64_t each, int64_t cols) {
  const int64_t step = 32 * each;
  return cols % each == 0 && (cols + step - 1) / step * step * static_cast<int64_t>(sizeof(float)) <= kMostShared;
}

}  // namespace

bool matvec_reads(const DeviceRows& x) { return x.rows == 1 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0; }

bool matvec_takes(DType type, int64_t cols) { return type == DType::kBF16 && takes(NarrowWeights::kEach, cols); }

bool matvec_takes(const CodeForm& form, int64_t cols) {
  if (form.codes == Codes::kNone) return false;
  return takes(form.codes == Codes::kBytes ? ByteWeights<32>::kEach : NibbleWeights::kEach, cols) &&
         cols % form.block == 0;
}

Status launch_matvec(const DeviceRows& weight, const DeviceRows& x, float* y, const float* bias, void* stream) {
  EI_CHECK(matvec_takes(weight.type, weight.cols) && weight.stride == weight.cols);
  const NarrowWeights form{static_cast<const uint4*>(weight.data), weight.cols / NarrowWeights::kEach};
  return launch(form, weight.rows, weight.cols, x, y, bias, stream);
}

Status launch_matvec(const DeviceCodes& weight, const DeviceRows& x, float* y, const float* bias, void* stream) {
  EI_CHECK(matvec_takes(weight.form, weight.cols));
  return with_form(weight,
                   [&](const auto& form) { return launch(form, weight.rows, weight.cols, x, y, bias, stream); });
}

}  // namespace ei::kernels::cuda
