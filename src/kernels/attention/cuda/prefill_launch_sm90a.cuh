// Chooses and launches the Hopper kernel of one head_dim.
#pragma once

#include <algorithm>

#include "kernels/attention/cuda/launches.h"
#include "kernels/attention/cuda/prefill_sm90a.cuh"

namespace ei::kernels::cuda {

template <class Config>
cudaError_t launch_config(const PrefillArgs& args, int sms, cudaStream_t stream) {
  constexpr int kBytes = PrefillShared<Config>::kDynamicBytes;
  static_assert(PrefillShared<Config>::kRows == hopper_item_rows(Config::kDim));
  const cudaError_t error =
      cudaFuncSetAttribute(prefill_sm90a<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  prefill_sm90a<Config><<<std::min(sms, args.items), PrefillShared<Config>::kThreads, kBytes, stream>>>(args);
  return cudaGetLastError();
}

template <int kDim, typename T>
struct CappedConfig : PrefillConfig<kDim, T> {
  static constexpr bool kSoftcap = true;
};

template <int kDim, typename T>
cudaError_t launch_type(const PrefillArgs& args, int sms, cudaStream_t stream) {
  return args.softcap > 0 ? launch_config<CappedConfig<kDim, T>>(args, sms, stream)
                          : launch_config<PrefillConfig<kDim, T>>(args, sms, stream);
}

template <int kDim>
cudaError_t launch_dim(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream) {
  return kv_type == DType::kF16 ? launch_type<kDim, __half>(args, sms, stream)
                                : launch_type<kDim, __nv_bfloat16>(args, sms, stream);
}

}  // namespace ei::kernels::cuda
