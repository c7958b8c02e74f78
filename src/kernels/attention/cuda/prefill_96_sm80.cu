#include "kernels/attention/cuda/prefill_launch_sm80.cuh"

namespace ei::kernels::cuda {

cudaError_t prefill_96_sm80(const PrefillArgs& args, DType kv_type, int sms, cudaStream_t stream) {
  return launch_portable_dim<96>(args, kv_type, sms, stream);
}

}  // namespace ei::kernels::cuda
