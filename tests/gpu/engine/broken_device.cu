#include <cuda_runtime_api.h>

#include "gpu/engine/broken_device.h"

namespace ei::testing {
namespace {

__global__ void trap_kernel() { asm volatile("trap;"); }

}  // namespace

// On a stream of its own, so that it begins beside what a session has enqueued.
void break_device() {
  cudaStream_t own = nullptr;
  if (cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking) != cudaSuccess) return;  // it has failed already
  trap_kernel<<<1, 1, 0, own>>>();
}

}  // namespace ei::testing
