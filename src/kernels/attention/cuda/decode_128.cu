#include "kernels/attention/cuda/decode_launch.cuh"

namespace ei::kernels::cuda {

cudaError_t decode_128(const DecodeArgs& args, DType kv_type, int ctas, cudaStream_t stream) {
  return launch_decode_dim<128>(args, kv_type, ctas, stream);
}

}  // namespace ei::kernels::cuda
