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

__global__ void __launch_bounds__(kThreads) keep_sums_kernel(KeepSums params) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= params.count) return;
  const int64_t row = blockIdx.y * params.stride;
  params.room[row + i] = params.sums[row + params.keep[i]];
}

dim3 grid_of(int64_t columns, int64_t rows) {
  return dim3(static_cast<unsigned>((columns + kThreads - 1) / kThreads), static_cast<unsigned>(rows));
}

}  // namespace

Status launch_sum_scores(const SumScoreParams& params, void* stream) {
  if (params.slots == 0 || params.num_heads == 0) return {};
  const dim3 grid = grid_of(params.slots, params.num_heads);
  sum_scores_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(params);
  return launched("sum_scores");
}

Status launch_keep_sums(const KeepSums& params, void* stream) {
  if (params.count == 0 || params.rows == 0) return {};
  auto* queue = static_cast<cudaStream_t>(stream);
  keep_sums_kernel<<<grid_of(params.count, params.rows), kThreads, 0, queue>>>(params);
  EI_RETURN_IF_ERROR(launched("keep_sums"));
  const size_t pitch = static_cast<size_t>(params.stride) * sizeof(double);
  const size_t width = static_cast<size_t>(params.count) * sizeof(double);
  return cuda_status(cudaMemcpy2DAsync(params.sums, pitch, params.room, pitch, width, static_cast<size_t>(params.rows),
                                       cudaMemcpyDeviceToDevice, queue),
                     "keep_sums");
}

}  // namespace ei::kernels::cuda
