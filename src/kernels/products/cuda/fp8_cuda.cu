#include <cuda_fp8.h>

#include "kernels/cuda/elements.cuh"
#include "kernels/products/cuda/fp8_cuda.h"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr float kLargest = 448;  // of E4M3

// Eight neighbours of a row.
__device__ void load_eight(const float* from, float (&to)[8]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float4 four = reinterpret_cast<const float4*>(from)[i];
    to[4 * i] = four.x;
    to[4 * i + 1] = four.y;
    to[4 * i + 2] = four.z;
    to[4 * i + 3] = four.w;
  }
}
__device__ void load_eight(const __nv_bfloat16* from, float (&to)[8]) {
  const uint4 words = *reinterpret_cast<const uint4*>(from);
  const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pairs[i]));
    to[2 * i] = pair.x;
    to[2 * i + 1] = pair.y;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) to_fp8_kernel(const T* rows, int64_t stride, Fp8Rows to) {
  const int64_t row = blockIdx.x;
  const T* from = rows + row * stride;
  auto* codes = static_cast<uint8_t*>(to.codes) + row * to.cols;
  float values[8];
  float largest = 0;
  for (int64_t i = 8 * static_cast<int64_t>(threadIdx.x); i < to.cols; i += 8 * kThreads) {
    load_eight(from + i, values);
#pragma unroll
    for (const float value : values) largest = fmaxf(largest, fabsf(value));
  }
  largest = block_max(largest);
  const float factor = largest > 0 ? kLargest / largest : 0.0f;
  if (threadIdx.x == 0) to.scales[row] = largest / kLargest;
  for (int64_t i = 8 * static_cast<int64_t>(threadIdx.x); i < to.cols; i += 8 * kThreads) {
    load_eight(from + i, values);
    uint32_t words[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 pair = make_float2(values[2 * j] * factor, values[2 * j + 1] * factor);
      words[j / 2] |= static_cast<uint32_t>(__nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3)) << 16 * (j % 2);
    }
    *reinterpret_cast<uint2*>(codes + i) = make_uint2(words[0], words[1]);
  }
}

}  // namespace

Status launch_to_fp8(const DeviceRows& from, const Fp8Rows& to, void* stream) {
  if (from.rows == 0) return {};
  EI_CHECK(from.rows == to.rows && from.cols == to.cols && fp8_takes(to.cols) && from.stride % 8 == 0);
  with_row_type(from.type, [&](auto element) {
    using T = decltype(element);
    to_fp8_kernel<<<static_cast<unsigned>(from.rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(from.data), from.stride, to);
  });
  return launched("products in 8 bits");
}

}  // namespace ei::kernels::cuda
