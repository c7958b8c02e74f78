// Products through cuBLASLt: y = x W^T (+ bias), sums in f32. Ways to compute a shape are chosen once and kept.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <tuple>

#include "base/result.h"
#include "kernels/cuda/device_rows.h"
#include "kernels/products/cuda/fp8_cuda.h"
#include "tensor/buffer.h"

namespace ei {

class CudaProducts {  // of one stream
 public:
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  enum class Into : uint8_t { kWritten, kAdded };  // what becomes of y; added to, it is f32 and has no bias

  explicit CudaProducts(cublasLtHandle_t handle) : handle_(handle) {}

  // W and x have one type, bf16 or f32 (then products are f32's too); y is f32 or bf16; bias [W.rows] is f32, and y
  // then.
  Status multiply(const kernels::cuda::DeviceRows& weight, const kernels::cuda::DeviceRows& x,
                  const kernels::cuda::DeviceRows& y, const float* bias, cudaStream_t stream,
                  Into into = Into::kWritten);
  // The same of rows in 8 bits; y is f32 or bf16.
  Status multiply(const kernels::cuda::Fp8Rows& weight, const kernels::cuda::Fp8Rows& x,
                  const kernels::cuda::DeviceRows& y, cudaStream_t stream, Into into = Into::kWritten);

 private:
  struct Plan;
  struct PlanDeleter {
    void operator()(Plan* plan) const;
  };
  // Types, extents, strides, alignments, and whether there is a bias.
  using Key =
      std::tuple<int, int, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, uint32_t, uint32_t, uint32_t, bool>;

  Result<Plan*> plan_for(const Key& key);
  Status run(const Plan& plan, const void* weight, const void* x, void* y, cudaStream_t stream, Into into);

  cublasLtHandle_t handle_;
  std::map<Key, std::unique_ptr<Plan, PlanDeleter>> plans_;
  Buffer workspace_;
};

}  // namespace ei
