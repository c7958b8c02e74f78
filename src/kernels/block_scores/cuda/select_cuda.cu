// The largest values of a row, by digits of eight bits from the top: for the blocks of a plan, and for the rows and
// super-blocks of a rating.
#include "kernels/block_scores/cuda/rating_work.cuh"
#include "kernels/cuda/elements.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kDigits = 256;

struct SelectShared {
  int32_t histogram[kDigits];
  uint32_t prefix;
  int32_t wanted;
  int32_t greater[kThreads / 32];
  int32_t equal[kThreads / 32];
};

// Calls take(place, index) for the `count` largest of key(0) ... key(size - 1), with ascending indices; among equals
// the lower index comes first. All threads of the block take part.
template <typename Key, typename Take>
__device__ void take_largest(SelectShared& shared, int32_t size, int32_t count, Key key, Take take) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  if (count >= size) {
    for (int32_t i = thread; i < size; i += kThreads) take(i, i);
    return;
  }
  if (count <= 0) return;
  uint32_t prefix = 0;
  int32_t wanted = count;  // of the keys that begin with the prefix
  for (int shift = 24; shift >= 0; shift -= 8) {
    __syncthreads();
    if (thread < kDigits) shared.histogram[thread] = 0;
    __syncthreads();
    const uint32_t mask = shift == 24 ? 0u : ~0u << (shift + 8);
    const int32_t whole = (size + kThreads - 1) / kThreads * kThreads;
    for (int32_t i = thread; i < whole; i += kThreads) {
      const uint32_t value = i < size ? key(i) : 0u;
      const bool counts = i < size && (value & mask) == prefix;
      const int digit = counts ? static_cast<int>(value >> shift & 255u) : -1;
      const unsigned same = __match_any_sync(~0u, digit);
      if (counts && lane == __ffs(static_cast<int>(same)) - 1) atomicAdd(&shared.histogram[digit], __popc(same));
    }
    __syncthreads();
    if (thread < 32) {  // eight digits a lane, sums from the top
      int32_t sum = 0;
      for (int i = 0; i < kDigits / 32; ++i) sum += shared.histogram[thread * (kDigits / 32) + i];
      int32_t above = sum;  // of this lane and the higher ones
      for (int step = 1; step < 32; step *= 2) {
        const int32_t other = __shfl_down_sync(~0u, above, step);
        if (lane + step < 32) above += other;
      }
      int32_t higher = above - sum;
      for (int digit = (thread + 1) * (kDigits / 32) - 1; digit >= thread * (kDigits / 32); --digit) {
        const int32_t count_here = shared.histogram[digit];
        if (higher < wanted && higher + count_here >= wanted) {
          shared.prefix = prefix | static_cast<uint32_t>(digit) << shift;
          shared.wanted = wanted - higher;
        }
        higher += count_here;
      }
    }
    __syncthreads();
    prefix = shared.prefix;
    wanted = shared.wanted;
  }
  // All keys above the prefix, and the first `wanted` that equal it.
  int32_t greater_before = 0;
  int32_t equal_before = 0;
  for (int32_t begin = 0; begin < size; begin += kThreads) {
    const int32_t i = begin + thread;
    const uint32_t value = i < size ? key(i) : 0u;
    const bool above = i < size && value > prefix;
    const bool same = i < size && value == prefix;
    const unsigned above_mask = __ballot_sync(~0u, above);
    const unsigned same_mask = __ballot_sync(~0u, same);
    __syncthreads();
    if (lane == 0) {
      shared.greater[thread / 32] = __popc(above_mask);
      shared.equal[thread / 32] = __popc(same_mask);
    }
    __syncthreads();
    int32_t greater = greater_before;
    int32_t equal = equal_before;
    for (int warp = 0; warp < kThreads / 32; ++warp) {
      if (warp < thread / 32) {
        greater += shared.greater[warp];
        equal += shared.equal[warp];
      }
      greater_before += shared.greater[warp];
      equal_before += shared.equal[warp];
    }
    greater += __popc(above_mask & ((1u << lane) - 1));
    equal += __popc(same_mask & ((1u << lane) - 1));
    const int32_t taken_equal = equal < wanted ? equal : wanted;
    if (above || (same && equal < wanted)) take(greater + taken_equal, i);
  }
}

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
