#include "kernels/attention/cuda/decode_launch.cuh"

namespace ei::kernels::cuda {

cudaError_t decode_256(const DecodeArgs& args, DType kv_type, int ctas, cudaStream_t stream) {
  return launch_decode_dim<256>(args, kv_type, ctas, stream);
}

}  // namespace ei::kernels::cuda
