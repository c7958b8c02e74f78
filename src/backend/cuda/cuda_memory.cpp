#include "backend/cuda/cuda_memory.h"

#include <atomic>

#include "kernels/cuda/device_rows.h"

namespace ei {

using kernels::cuda::cuda_status;

namespace {

std::atomic<int64_t> succeeding_left = -1;  // -1: all succeed

bool failure_is_asked_for() {
  int64_t left = succeeding_left.load();
  while (left > 0 && !succeeding_left.compare_exchange_weak(left, left - 1)) {
  }
  return left == 0;
}

}  // namespace

void fail_allocations(int64_t succeeding) { succeeding_left = succeeding; }

int64_t free_device_bytes() {
  size_t free = 0;
  size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  return static_cast<int64_t>(free);
}

Result<Buffer> allocate_device(size_t bytes) {
  if (bytes == 0) return Buffer();
  void* data = nullptr;
  const cudaError_t error = failure_is_asked_for() ? cudaErrorMemoryAllocation : cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return make_error(ErrorKind::kMemory, "out of GPU memory: %zu MiB needed, %lld MiB free", (bytes >> 20) + 1,
                      static_cast<long long>(free_device_bytes() >> 20));
  }
  EI_RETURN_IF_ERROR(cuda_status(error, "allocating"));
  return Buffer(
      data, bytes, [](void* address, size_t, void*) { cudaFree(address); }, nullptr);
}

Result<Buffer> allocate_pinned(size_t bytes) {
  if (bytes == 0) return Buffer();
  void* data = nullptr;
  const cudaError_t error =
      failure_is_asked_for() ? cudaErrorMemoryAllocation : cudaHostAlloc(&data, bytes, cudaHostAllocMapped);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return make_error(ErrorKind::kMemory, "out of memory: %zu KiB that the GPU can read could not be reserved",
                      bytes >> 10);
  }
  EI_RETURN_IF_ERROR(cuda_status(error, "allocating host memory"));
  return Buffer(
      data, bytes, [](void* address, size_t, void*) { cudaFreeHost(address); }, nullptr);
}

// Through the thread's own stream: copies of one session do not wait for the kernels of another, and a copy on the
// device, too, is done before anybody reads on.
Status copy_and_wait(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return {};
  EI_RETURN_IF_ERROR(cuda_status(cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread), "copying"));
  return cuda_status(cudaStreamSynchronize(cudaStreamPerThread), "copying");
}

}  // namespace ei
