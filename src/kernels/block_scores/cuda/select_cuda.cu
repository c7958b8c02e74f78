// The largest values of a row, by digits of eight bits from the top: for the blocks of a plan, and for the rows and
// super-blocks of a rating.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/attention/cuda/rows.cuh"
#include "kernels/block_scores/cuda/rating_work.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/largest.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = kSelectThreads;
constexpr int kDistanceThreads = 512;

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

// An element of the query that a row rates with.
__device__ float query_element(const RatingArgs& args, const RatingTask& task, int32_t t, int32_t row, int32_t d) {
  if (task.query == GroupQuery::kEach) return own_query(args, task, row)[d];
  const int64_t at = (int64_t{t} * args.max_rows + row) * args.dim + d;
  if (!args.fast) return static_cast<const float*>(args.queries)[at];
  if (args.params.pages.shape.key_type == DType::kF16)
    return __half2float(static_cast<const __half*>(args.queries)[at]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(args.queries)[at]);
}

// Squared, of one query of every row, from the mean over the rows.
__device__ void measure_distances(const RatingArgs& args, const RatingTask& task, int32_t t, int32_t member) {
  __shared__ float parts[kThreads];
  __shared__ float mean[kThreads];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t slices = kThreads / args.dim;
  float sum = 0;
  if (thread < slices * args.dim) {
#pragma unroll 4
    for (int32_t i = thread / args.dim; i < task.tokens; i += slices)
      sum += query_element(args, task, t, i * task.queries + member, thread % args.dim);
  }
  parts[thread] = sum;
  __syncthreads();
  if (thread < args.dim) {
    for (int32_t slice = 1; slice < slices; ++slice) sum += parts[slice * args.dim + thread];
    mean[thread] = sum / static_cast<float>(task.tokens);
  }
  __syncthreads();
  const int32_t lane = thread % 32;
  for (int32_t i = thread / 32; i < task.tokens; i += kThreads / 32) {
    const int32_t row = i * task.queries + member;
    float apart = 0;
    for (int32_t d = lane; d < args.dim; d += 32) {
      const float x = query_element(args, task, t, row, d) - mean[d];
      apart += x * x;
    }
    for (int step = 16; step > 0; step /= 2) apart += __shfl_xor_sync(~0u, apart, step);
    if (lane == 0) args.row_distances[int64_t{t} * args.max_rows + row] = apart;
  }
  __syncthreads();
}

// The same for all tasks and queries at once, where a lane has kEach elements of a row. Many rows of a warp are loaded
// before any is used, since loads that wait for each other are all that this takes, and kept, as the cache's type,
// until the mean is known: of a longer segment the rest is loaded again.
template <typename T, int kEach>
__global__ void __launch_bounds__(kDistanceThreads) distances_kernel(RatingArgs args) {
  constexpr int kWarps = kDistanceThreads / 32;
  constexpr int kTogether = 8;  // rows that are loaded at once
  constexpr int kKept = 32;     // rows of a warp
  constexpr int kWords = kEach / 2 + kEach % 2;
  __shared__ float sums[kWarps][32 * kEach];
  __shared__ float mean[32 * kEach];
  const auto t = static_cast<int32_t>(blockIdx.x);
  const auto member = static_cast<int32_t>(blockIdx.y);
  const RatingTask task = args.tasks[t];
  if (!task.chosen || member >= task.queries) return;
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  // Where a lane's first element of token i lies: heads that speak for themselves as the model left them, in f32.
  const bool own_queries = task.query == GroupQuery::kEach;
  const float* heads = args.params.q + task.first_token * args.params.q_stride +
                       (int64_t{task.kv_head} * args.group + member) * args.dim;
  const T* queries = static_cast<const T*>(args.queries) + (int64_t{t} * args.max_rows + member) * args.dim;
  const int64_t step = int64_t{task.queries} * args.dim;
  // Element e of a lane: pairs, where they come out even.
  constexpr int kSide = kEach % 2 == 0 ? 2 : 1;
  const auto place = [lane](int e) { return e / kSide * 32 * kSide + kSide * lane + e % kSide; };
  float x[kTogether][kEach];
  const auto load = [&](int32_t first) {
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const int32_t i = first + r * kWarps;
#pragma unroll
      for (int e = 0; e < kEach; e += kSide) {
        if (i >= task.tokens) {
          for (int s = 0; s < kSide; ++s) x[r][e + s] = 0;
        } else if (!own_queries) {
          for (int s = 0; s < kSide; ++s) x[r][e + s] = to_float(queries[i * step + place(e + s)]);
        } else if constexpr (kSide == 2) {
          const float2 pair = *reinterpret_cast<const float2*>(heads + i * args.params.q_stride + place(e));
          x[r][e] = pair.x;
          x[r][e + 1] = pair.y;
        } else {
          x[r][e] = heads[i * args.params.q_stride + place(e)];
        }
      }
    }
  };
  float own[kEach] = {};
  const auto add = [&] {
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
#pragma unroll
      for (int e = 0; e < kEach; ++e) own[e] += x[r][e];
    }
  };
  uint32_t kept[kKept][kWords];
#pragma unroll
  for (int batch = 0; batch < kKept; batch += kTogether) {
    load(warp + batch * kWarps);
    add();
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
#pragma unroll
      for (int w = 0; w < kWords; ++w)
        kept[batch + r][w] = pack_pair<T>(x[r][2 * w], 2 * w + 1 < kEach ? x[r][2 * w + 1] : 0.0f);
    }
  }
  for (int32_t first = warp + kKept * kWarps; first < task.tokens; first += kTogether * kWarps) {
    load(first);
    add();
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) sums[warp][place(e)] = own[e];
  __syncthreads();
  if (threadIdx.x < 32 * kEach) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += sums[w][threadIdx.x];
    mean[threadIdx.x] = sum / static_cast<float>(task.tokens);
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < kEach; ++e) own[e] = mean[place(e)];
  float* distances = args.row_distances + int64_t{t} * args.max_rows + member;
  const auto measure = [&](int32_t i, const float(&row)[kEach]) {
    float apart = 0;
#pragma unroll
    for (int e = 0; e < kEach; ++e) apart += (row[e] - own[e]) * (row[e] - own[e]);
    apart = warp_sum(apart);
    if (lane == 0 && i < task.tokens) distances[i * task.queries] = apart;
  };
#pragma unroll
  for (int r = 0; r < kKept; ++r) {
    const T* pairs = reinterpret_cast<const T*>(kept[r]);
    float row[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) row[e] = to_float(pairs[e]);
    measure(warp + r * kWarps, row);
  }
  for (int32_t first = warp + kKept * kWarps; first < task.tokens; first += kTogether * kWarps) {
    load(first);
#pragma unroll
    for (int r = 0; r < kTogether; ++r) measure(first + r * kWarps, x[r]);
  }
}

bool measured_before(const RatingArgs& args) { return args.fast && args.dim <= 128; }

template <typename T>
void launch_distances(const RatingArgs& args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(args.num_tasks), static_cast<unsigned>(args.params.most_queries));
  switch (args.dim) {
    case 64: distances_kernel<T, 2><<<grid, kDistanceThreads, 0, stream>>>(args); break;
    case 96: distances_kernel<T, 3><<<grid, kDistanceThreads, 0, stream>>>(args); break;
    default: distances_kernel<T, 4><<<grid, kDistanceThreads, 0, stream>>>(args); break;
  }
}

// The rows furthest from the mean, of each query.
__global__ void __launch_bounds__(kThreads) choose_rows_kernel(RatingArgs args, bool measured) {
  __shared__ SelectShared shared;
  const auto t = static_cast<int32_t>(blockIdx.x);
  const RatingTask task = args.tasks[t];
  const auto member = static_cast<int32_t>(blockIdx.y);
  if (!task.chosen || member >= task.queries) return;
  if (!measured) measure_distances(args, task, t, member);
  const int32_t asked = task.rows / task.queries;
  const float* distances = args.row_distances + int64_t{t} * args.max_rows;
  int32_t* to = args.row_list + int64_t{t} * args.max_rows + member * asked;
  take_largest(
      shared, task.tokens, asked, [&](int32_t i) { return ordered(distances[i * task.queries + member]); },
      [&](int32_t place, int32_t i) { to[place] = i * task.queries + member; });
}

// The super-blocks with the largest bounds, and the first one.
__global__ void __launch_bounds__(kThreads) choose_supers_kernel(RatingArgs args) {
  __shared__ SelectShared shared;
  const auto t = static_cast<int32_t>(blockIdx.x);
  const RatingTask task = args.tasks[t];
  if (task.candidates < 0) return;
  const uint32_t* bounds = args.super_bounds + t * args.max_supers;
  int32_t* to = args.super_list + t * args.max_supers;
  take_largest(
      shared, task.supers, task.candidates, [&](int32_t i) { return i == 0 ? ~0u : bounds[i]; },
      [&](int32_t place, int32_t i) { to[place] = i; });
}

}  // namespace

int rating_choose_rows(const RatingArgs& args, void* stream) {
  auto* queue = static_cast<cudaStream_t>(stream);
  const bool measured = measured_before(args);
  if (measured && args.params.pages.shape.key_type == DType::kF16) launch_distances<__half>(args, queue);
  if (measured && args.params.pages.shape.key_type != DType::kF16) launch_distances<__nv_bfloat16>(args, queue);
  const dim3 grid(static_cast<unsigned>(args.num_tasks), static_cast<unsigned>(args.params.most_queries));
  choose_rows_kernel<<<grid, kThreads, 0, queue>>>(args, measured);
  return cudaGetLastError();
}

int rating_choose_supers(const RatingArgs& args, void* stream) {
  choose_supers_kernel<<<static_cast<unsigned>(args.num_tasks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(args);
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
