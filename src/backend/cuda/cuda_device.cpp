#include "backend/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include "backend/cuda/cuda_capability.h"
#include "kernels/attention/cuda/kv_layout.h"

namespace ei {

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(std::string_view wanted) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    return make_error(ErrorKind::kDevice, "no usable NVIDIA GPU (%s); take --device cpu",
                      error != cudaSuccess ? cudaGetErrorString(error) : "none found");
  }
  constexpr int kFirst = 0;  // CUDA_VISIBLE_DEVICES chooses among several
  cudaDeviceProp properties{};
  if (const cudaError_t asked = cudaGetDeviceProperties(&properties, kFirst); asked != cudaSuccess) {
    cudaGetLastError();
    return make_error(ErrorKind::kDevice, "the GPU does not answer (%s); take --device cpu", cudaGetErrorString(asked));
  }
  EI_RETURN_IF_ERROR(check_capability(one_line(properties.name), properties.major, properties.minor));
  std::unique_ptr<CudaDevice> self(new CudaDevice());
  self->name_ = one_line(properties.name);
  self->total_bytes_ = static_cast<int64_t>(properties.totalGlobalMem);
  EI_ASSIGN_OR_RETURN(self->traits_, kernels::cuda::device_traits(kFirst));
  if (wanted == "portable") self->traits_.set = kernels::cuda::KernelSet::kPortable;
  self->plain_ = wanted == "plain";
  if (cublasLtCreate(&self->products_) != CUBLAS_STATUS_SUCCESS) {
    self->products_ = nullptr;
    return make_error(ErrorKind::kDevice, "cuBLAS could not be started on '%s'", self->name_.c_str());
  }
  return self;
}

CudaDevice::~CudaDevice() {
  if (products_ != nullptr) cublasLtDestroy(products_);
}

bool blocked_pages(const CudaDevice& device, const KvPageShape& shape) {
  return !device.plain() && shape.key_type == shape.value_type && shape.slots % kernels::cuda::kBlockKeys == 0 &&
         kernels::cuda::serves(device.traits(), shape.key_type, shape.head_dim);
}

}  // namespace ei
