// Elements of f32, bf16 and f16 arrays inside kernels, and sums over warps and blocks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "tensor/dtype.h"

namespace ei::kernels::cuda {

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline float to_float(__half value) { return __half2float(value); }

template <typename T>
__device__ inline T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline __half from_float<__half>(float value) {
  return __float2half_rn(value);
}

// An element of a type that is only known when the kernel runs.
__device__ inline float element_at(const void* data, DType type, int64_t index) {
  if (type == DType::kF32) return static_cast<const float*>(data)[index];
  if (type == DType::kBF16) return to_float(static_cast<const __nv_bfloat16*>(data)[index]);
  return to_float(static_cast<const __half*>(data)[index]);
}

__device__ inline float warp_sum(float value) {
  for (int mask = 16; mask > 0; mask >>= 1) value += __shfl_xor_sync(0xffffffffu, value, mask);
  return value;
}
__device__ inline float warp_max(float value) {
  for (int mask = 16; mask > 0; mask >>= 1) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, mask));
  return value;
}

// Over all threads of a block, a multiple of 32 and at most 1024; everyone gets the sum.
__device__ inline float block_sum(float value) {
  __shared__ float parts[32];
  value = warp_sum(value);
  const unsigned warp = threadIdx.x / 32;
  __syncthreads();  // nobody reads the sums of an earlier call any more
  if (threadIdx.x % 32 == 0) parts[warp] = value;
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;
  return warp_sum(lane < blockDim.x / 32 ? parts[lane] : 0.0f);
}
__device__ inline float block_max(float value) {
  __shared__ float parts[32];
  value = warp_max(value);
  const unsigned warp = threadIdx.x / 32;
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[warp] = value;
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;
  return warp_max(lane < blockDim.x / 32 ? parts[lane] : -INFINITY);
}

// Calls use(T{}) with f32 or bf16 elements.
template <typename Use>
void with_row_type(DType type, Use use) {
  if (type == DType::kF32) {
    use(float{});
  } else {
    EI_CHECK(type == DType::kBF16);
    use(__nv_bfloat16{});
  }
}

}  // namespace ei::kernels::cuda
