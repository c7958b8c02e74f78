// Errors of the runtime become ours in one way.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "kernels/cuda/device_rows.h"

namespace ei::kernels::cuda {
namespace {

TEST(CudaStatus, OfMemoryThatRunsOutIsMemorysAndIsForgotten) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
  void* memory = nullptr;
  const Status status = cuda_status(cudaMalloc(&memory, size_t{1} << 60), "a test");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kMemory) << status.error().message;
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(CudaStatus, OfAnythingElseIsTheDevices) {
  const Status status = cuda_status(cudaErrorInvalidConfiguration, "a test");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kDevice);
  EXPECT_EQ(exit_code(status.error().kind), 5);
}

}  // namespace
}  // namespace ei::kernels::cuda
