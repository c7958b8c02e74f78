#include "kernels/cuda/device_rows.h"
#include "kernels/window_scores/cuda/sum_scores_cuda.h"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) sum_scores_kernel(SumScoreParams params) {
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (slot >= params.slots) return;
  const int64_t head = blockIdx.y;
  params.scores[head * params.stride + slot] = __double2float_rn(params.sums[head * params.sum_stride + slot]);
}

}  // namespace

Status launch_sum_scores(const SumScoreParams& params, void* stream) {
  if (params.slots == 0 || params.num_heads == 0) return {};
  const dim3 grid(static_cast<unsigned>((params.slots + kThreads - 1) / kThreads),
                  static_cast<unsigned>(params.num_heads));
  sum_scores_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(params);
  return launched("sum_scores");
}

}  // namespace ei::kernels::cuda
