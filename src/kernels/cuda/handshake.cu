#include <cuda_runtime_api.h>

#include "kernels/cuda/device_rows.h"
#include "kernels/cuda/handshake.h"

namespace ei::kernels::cuda {
namespace {

__global__ void handshake_kernel(volatile uint32_t* reached, const volatile uint32_t* done, uint32_t number) {
  __threadfence_system();  // what was written before is seen first
  *reached = number;
  while (static_cast<int32_t>(*done - number) < 0) __nanosleep(100);
  __threadfence_system();
}

}  // namespace

Status launch_handshake(uint32_t* reached, const uint32_t* done, uint32_t number, void* stream) {
  handshake_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(reached, done, number);
  return launched("host job");
}

}  // namespace ei::kernels::cuda
