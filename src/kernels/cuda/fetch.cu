#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/cuda/device_rows.h"
#include "kernels/cuda/fetch.h"

namespace ei::kernels::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr size_t kMostCtas = 64;

__global__ void fetch_kernel(const uint4* from, uint4* to, size_t count) {
  for (size_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += size_t{gridDim.x} * kThreads) to[i] = from[i];
}

}  // namespace

Status launch_fetch(const void* pinned, void* to, size_t bytes, void* stream) {
  if (bytes == 0) return {};
  const size_t count = (bytes + sizeof(uint4) - 1) / sizeof(uint4);
  const auto ctas = static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostCtas));
  fetch_kernel<<<ctas, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const uint4*>(pinned),
                                                                         static_cast<uint4*>(to), count);
  return launched("sending");
}

}  // namespace ei::kernels::cuda
