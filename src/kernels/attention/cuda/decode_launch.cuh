// Launches the decoding kernel of one head_dim.
#pragma once

#include "kernels/attention/cuda/decode.cuh"
#include "kernels/attention/cuda/launches.h"

namespace ei::kernels::cuda {

template <int kDim, typename T, bool kCodes = false>
cudaError_t launch_decode_type(const DecodeArgs& args, int ctas, cudaStream_t stream) {
  using Kernel = Decode<kDim, T, kCodes>;
  const auto kernel = decode_attention<kDim, T, kCodes>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Kernel::kDynamicBytes);
  if (error != cudaSuccess) return error;
  kernel<<<ctas, Kernel::kThreads, Kernel::kDynamicBytes, stream>>>(args);
  return cudaGetLastError();
}

template <int kDim>
cudaError_t launch_decode_dim(const DecodeArgs& args, DType kv_type, int ctas, cudaStream_t stream) {
  if (kv_type == DType::kF8) return launch_decode_type<kDim, __half, true>(args, ctas, stream);
  return kv_type == DType::kF16 ? launch_decode_type<kDim, __half>(args, ctas, stream)
                                : launch_decode_type<kDim, __nv_bfloat16>(args, ctas, stream);
}

}  // namespace ei::kernels::cuda
