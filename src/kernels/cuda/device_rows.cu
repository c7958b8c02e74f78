#include <cuda_runtime_api.h>

#include "kernels/cuda/device_rows.h"

namespace ei::kernels::cuda {

Status cuda_status(int code, const char* what) {
  const auto error = static_cast<cudaError_t>(code);
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // what can be forgotten is
  if (error == cudaErrorMemoryAllocation) return make_error(ErrorKind::kMemory, "out of GPU memory (%s)", what);
  return make_error(ErrorKind::kDevice, "the GPU failed (%s: %s)", what, cudaGetErrorString(error));
}

Status launched(const char* what) { return cuda_status(cudaGetLastError(), what); }

}  // namespace ei::kernels::cuda
