#include "kernels/block_scores/cuda/rating_sm90a.cuh"

namespace ei::kernels::cuda {

int rating_256_sm90a(const RatingArgs& args, Products kind, DType type, int sms, void* stream) {
  return launch_rating_dim<256>(args, kind, type, sms, stream);
}

}  // namespace ei::kernels::cuda
