// Launches the portable prefill kernel of one head_dim.
#pragma once

#include <algorithm>

#include "kernels/attention/cuda/launches.h"
#include "kernels/attention/cuda/prefill_sm80.cuh"

namespace ei::kernels::cuda {

template <int kDim, typename T>
cudaError_t launch_portable(const PrefillArgs& args, int sms, cudaStream_t stream) {
  constexpr int kBytes = PortablePrefill<kDim, T>::kDynamicBytes;
  const auto kernel = prefill_portable<kDim, T>;
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  int per_sm = 0;
  if (error == cudaSuccess)
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, kPortableThreads, kBytes);
  if (error != cudaSuccess) return error;
  kernel<<<std::min(args.items, sms * std::max(per_sm, 1)), kPortableThreads, kBytes, stream>>>(args);
  return cudaGetLastError();
}

template <int kDim>
cudaError_t launch_portable_dim(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream) {
  return kv_type == DType::kF16 ? launch_portable<kDim, __half>(args, sms, stream)
                                : launch_portable<kDim, __nv_bfloat16>(args, sms, stream);
}

}  // namespace ei::kernels::cuda
