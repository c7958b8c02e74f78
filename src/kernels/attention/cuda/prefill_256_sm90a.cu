#include "kernels/attention/cuda/prefill_launch_sm90a.cuh"

namespace ei::kernels::cuda {

cudaError_t prefill_256_sm90a(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream) {
  return launch_dim<256>(args, kv_type, sms, stream);
}

}  // namespace ei::kernels::cuda
