// The largest values of a row, by digits of eight bits from the top: for the blocks of a plan, and for the rows and
// super-blocks of a rating.
#include "kernels/block_scores/cuda/rating_work.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/largest.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = kSelectThreads;

__global__ void __launch_bounds__(kThreads) offsets_kernel(SelectLists params, int32_t lists) {
  __shared__ int32_t parts[kThreads / 32];
  const int thread = static_cast<int>(threadIdx.x);
  int64_t before = 0;
  if (thread == 0) params.offsets[0] = 0;
  for (int32_t begin = 0; begin < lists; begin += kThreads) {
    const int32_t list = begin + thread;
    const int32_t count = list < lists ? params.counts[list] : 0;
    const int32_t own = count < 0 ? 0 : count;
    if (list < params.rows.num_segments) params.dense[list] = count < 0 ? 1 : 0;
    int32_t sum = own;
    for (int step = 1; step < 32; step *= 2) {
      const int32_t other = __shfl_up_sync(~0u, sum, step);
      if (thread % 32 >= step) sum += other;
    }
    __syncthreads();
    if (thread % 32 == 31) parts[thread / 32] = sum;
    __syncthreads();
    int64_t total = 0;
    int64_t base = before;
    for (int warp = 0; warp < kThreads / 32; ++warp) {
      if (warp < thread / 32) base += parts[warp];
      total += parts[warp];
    }
    if (list < lists) params.offsets[list + 1] = base + sum;
    before += total;
  }
}

__global__ void __launch_bounds__(kThreads) select_kernel(SelectLists params) {
  __shared__ SelectShared shared;
  const auto list = static_cast<int32_t>(blockIdx.x);
  const int32_t segment = list % params.rows.num_segments;
  const float* values = params.values + int64_t{list} * params.rows.stride;
  int32_t* to = params.blocks + params.offsets[list];
  const auto count = static_cast<int32_t>(params.offsets[list + 1] - params.offsets[list]);
  if (count == 0) return;
  take_largest(
      shared, static_cast<int32_t>(params.rows.visible(segment)), count, [&](int32_t i) { return ordered(values[i]); },
      [&](int32_t place, int32_t i) { to[place] = i; });
}

// The rows with the largest bounds, of each query; behind them (the last z) the super-blocks.
__global__ void __launch_bounds__(kThreads) choose_kernel(RatingArgs args, int32_t most_queries) {
  __shared__ SelectShared shared;
  const auto t = static_cast<int32_t>(blockIdx.x);
  const RatingTask task = args.tasks[t];
  if (!task.chosen) return;
  const auto member = static_cast<int32_t>(blockIdx.y);
  if (member == most_queries) {
    if (task.candidates < 0) return;
    const uint32_t* bounds = args.super_bounds + t * args.max_supers;
    int32_t* to = args.super_list + t * args.max_supers;
    take_largest(
        shared, task.supers, task.candidates, [&](int32_t i) { return i == 0 ? ~0u : bounds[i]; },
        [&](int32_t place, int32_t i) { to[place] = i; });
    return;
  }
  if (member >= task.queries) return;
  const int32_t asked = task.rows / task.queries;
  const float* bounds = args.row_bounds + int64_t{t} * args.max_rows;
  int32_t* to = args.row_list + int64_t{t} * args.max_rows + member * asked;
  take_largest(
      shared, task.tokens, asked, [&](int32_t i) { return ordered(bounds[i * task.queries + member]); },
      [&](int32_t place, int32_t i) { to[place] = i * task.queries + member; });
}

}  // namespace

int rating_choose(const RatingArgs& args, void* stream) {
  const auto queries = static_cast<unsigned>(args.params.most_queries);
  choose_kernel<<<dim3(static_cast<unsigned>(args.num_tasks), queries + 1), kThreads, 0,
                  static_cast<cudaStream_t>(stream)>>>(args, static_cast<int32_t>(queries));
  return cudaGetLastError();
}

Status launch_select(const SelectLists& params, void* stream) {
  auto* queue = static_cast<cudaStream_t>(stream);
  const int32_t lists = params.rows.kv_heads * params.rows.num_segments;
  if (lists == 0) return {};
  offsets_kernel<<<1, kThreads, 0, queue>>>(params, lists);
  select_kernel<<<static_cast<unsigned>(lists), kThreads, 0, queue>>>(params);
  return launched("select_blocks");
}

}  // namespace ei::kernels::cuda
