// Facts of a device, and which set of kernels it runs.
#include <cuda_runtime_api.h>

#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/cuda/device_rows.h"

namespace ei::kernels::cuda {

Result<DeviceTraits> device_traits(int device) {
  int major = 0;
  int minor = 0;
  int sms = 0;
  cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  EI_RETURN_IF_ERROR(cuda_status(error, "asking for its capability"));
  DeviceTraits traits;
  traits.capability = major * 10 + minor;
  traits.num_sms = sms;
  if (traits.capability < 80) {
    return make_error(ErrorKind::kDevice, "GPU %d has compute capability %d.%d; 8.0 or later is needed", device, major,
                      minor);
  }
  traits.set = traits.capability == 90 ? KernelSet::kHopper : KernelSet::kPortable;
  return traits;
}

bool serves(const DeviceTraits& traits, DType kv_type, int32_t head_dim) {
  const bool dims = head_dim == 64 || head_dim == 96 || head_dim == 128 || head_dim == 256;
  return traits.capability >= 80 && dims && (kv_type == DType::kBF16 || kv_type == DType::kF16);
}

}  // namespace ei::kernels::cuda
