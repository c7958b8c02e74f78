// The tasks of a rating and their queries; and what follows from the peaks: ratings and samples.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "kernels/block_scores/cuda/rating_work.cuh"
#include "kernels/cuda/elements.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr float kLn2 = 0.693147181f;

__device__ RatingTask make_task(const RatingArgs& args, int32_t index, bool weigh) {
  const RatingParams& params = args.params;
  const BlockRows& rows = params.rows;
  RatingTask task{};
  task.kv_head = index / params.num_active;
  const int32_t segment = params.segments[index % params.num_active];
  task.list = task.kv_head * rows.num_segments + segment;
  task.own_begin = (rows.first_segment + segment) * rows.grid.segment;
  const int32_t begin = task.own_begin - params.first_position;
  task.first_token = begin > 0 ? begin : 0;
  const int32_t end = begin + rows.grid.segment;
  task.tokens = (end < params.tokens ? end : static_cast<int32_t>(params.tokens)) - task.first_token;
  task.visible = static_cast<int32_t>(rows.visible(segment));
  task.supers = task.visible / args.super_blocks;
  task.candidates = -1;
  const BlockRanking ranking = params.ranking[task.list];
  if (params.sampling) {
    const bool heads = ranking.sampling == Sampling::kHeads;
    task.query = heads ? GroupQuery::kEach : GroupQuery::kMean;
    task.queries = heads ? args.group : 1;
    task.all_rows = task.rows = ranking.sampling == Sampling::kNone ? 0 : kSampleRows * task.queries;
    task.blocks = task.visible;
    return task;
  }
  task.latest = ranking.latest;
  task.query = ranking.queries;
  if (weigh) {  // every head for itself, to see which finds least
    task.query = GroupQuery::kEach;
    task.queries = args.group;
    if (!ranking.latest && ranking.queries == GroupQuery::kLeastLocal)
      task.all_rows = task.rows = task.tokens * args.group;
    return task;
  }
  task.queries = static_cast<int32_t>(num_queries(ranking.queries, args.group));
  if (ranking.latest) return task;
  task.all_rows = task.tokens * task.queries;
  task.chosen = ranking.rows > 0 && ranking.rows < task.tokens;
  task.rows = task.chosen ? ranking.rows * task.queries : task.all_rows;
  task.blocks = task.visible;
  if (task.supers > 0 && ranking.candidates > 0 && ranking.candidates < task.visible) {
    const int32_t wanted = ranking.candidates / args.super_blocks;
    task.candidates = wanted < 1 ? 1 : wanted < task.supers ? wanted : task.supers;
    task.blocks = task.visible - (task.supers - task.candidates) * args.super_blocks;
  }
  return task;
}

__global__ void setup_kernel(RatingArgs args, bool weigh) {
  __shared__ int32_t counts[3];
  for (int32_t t = static_cast<int32_t>(threadIdx.x); t < args.num_tasks; t += kThreads) {
    const RatingTask task = make_task(args, t, weigh);
    args.tasks[t] = task;
    for (int kind = 0; kind < 3; ++kind)
      args.first_item[kind][t + 1] = items_of(args, task, static_cast<Products>(kind));
  }
  __syncthreads();
  if (threadIdx.x < 3) {
    int32_t* first = args.first_item[threadIdx.x];
    counts[threadIdx.x] = 0;
    first[0] = 0;
    for (int32_t t = 0; t < args.num_tasks; ++t) first[t + 1] = counts[threadIdx.x] += first[t + 1];
  }
}

// The query that speaks for the group, by a warp.
template <typename T>
__device__ void write_query(const RatingArgs& args, const RatingTask& task, int32_t t, int32_t row, int lane) {
  T* to = static_cast<T*>(args.queries) + (int64_t{t} * args.max_rows + row) * args.dim;
  if (task.query == GroupQuery::kEach) {
    const float* head = own_query(args, task, row);
#pragma unroll 4
    for (int32_t d = lane; d < args.dim; d += 32) to[d] = from_float<T>(head[d]);
    return;
  }
  const int32_t token = token_of(args, task, row);
  const float* q = args.params.q + token * args.params.q_stride + int64_t{task.kv_head} * args.group * args.dim;
  const bool mean = task.query == GroupQuery::kMean || args.group == 1;
  const bool fours = args.dim % 4 == 0 && args.params.q_stride % 4 == 0 && reinterpret_cast<uintptr_t>(q) % 16 == 0;
  // What each head found in its own segment lies where weighing left it.
  const float* own = args.own + int64_t{t} * args.max_rows + int64_t{row} * args.group;
  float least = INFINITY;
  float total = 0;
  for (int32_t g = 0; g < args.group && !mean; ++g) least = fminf(least, own[g]);
  for (int32_t g = 0; g < args.group && !mean; ++g) total += exp2f(least - own[g]);
  for (int32_t d = 4 * lane; d < args.dim; d += 4 * 32) {
    float sums[4] = {};
#pragma unroll 4
    for (int32_t g = 0; g < args.group; ++g) {
      const float share = mean ? 1.0f / static_cast<float>(args.group) : exp2f(least - own[g]) / total;
      const float* from = q + g * args.dim + d;
      if (fours) {
        const float4 four = *reinterpret_cast<const float4*>(from);
        sums[0] += share * four.x;
        sums[1] += share * four.y;
        sums[2] += share * four.z;
        sums[3] += share * four.w;
      } else {
        for (int i = 0; i < 4 && d + i < args.dim; ++i) sums[i] += share * from[i];
      }
    }
    for (int i = 0; i < 4 && d + i < args.dim; ++i) to[d + i] = from_float<T>(sums[i]);
  }
}

// One warp a row: the query that speaks for the group.
template <typename T>
__global__ void queries_kernel(RatingArgs args) {
  const int32_t t = static_cast<int32_t>(blockIdx.y);
  const RatingTask task = args.tasks[t];
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (auto j = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x); !args.params.sampling && j < task.supers;
       j += static_cast<int32_t>(gridDim.x) * kThreads)
    args.super_bounds[t * args.max_supers + j] = 0;
  if (args.fast && task.query == GroupQuery::kEach) return;  // read as they are
  for (auto row = static_cast<int32_t>(blockIdx.x * kWarps + threadIdx.x / 32); row < task.all_rows;
       row += static_cast<int32_t>(gridDim.x) * kWarps)
    write_query<T>(args, task, t, row, lane);
}

// The normalisers of the rows that were rated.
__global__ void normalise_kernel(RatingArgs args) {
  const int32_t t = static_cast<int32_t>(blockIdx.y);
  const RatingTask& task = args.tasks[t];
  const int32_t row = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (row >= task.rows) return;
  const int32_t splits = args.fast ? (task.blocks * args.parts + kSplitPanels - 1) / kSplitPanels : 1;
  const int64_t at = int64_t{t} * args.max_rated + row;
  float sum = 0;
  for (int32_t i = 0; i < splits; ++i) sum += args.parts_sum[at * args.max_splits + i];
  args.far_sum[at] = sum;
  args.grown[at] = log2f(1 + sum);
}

// Eight neighbouring peaks of a row.
struct EightPeaks {
  float values[8];
  __device__ explicit EightPeaks(const uint16_t* from) {
    const uint4 words = *reinterpret_cast<const uint4*>(from);
    const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&pairs[i]));
      values[2 * i] = pair.x;
      values[2 * i + 1] = pair.y;
    }
  }
};

// Every block keeps the best of peak - normaliser. A CTA has 256 blocks, eight a lane, and its warps share the rows.
__global__ void __launch_bounds__(kThreads) ratings_kernel(RatingArgs args) {
  __shared__ float parts[kWarps][kThreads];
  const int32_t t = static_cast<int32_t>(blockIdx.y);
  const RatingTask task = args.tasks[t];
  float* scores = args.params.scores + int64_t{task.list} * args.params.rows.stride;
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kThreads;
  const int32_t own = first + static_cast<int32_t>(threadIdx.x);
  if (task.latest) {
    if (own < task.visible) scores[own] = own == 0 ? 0.0f : static_cast<float>(own - task.visible);
    return;
  }
  if (first >= task.blocks) return;
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  float best[8];
#pragma unroll
  for (float& value : best) value = -INFINITY;
  if (first + 8 * lane < task.blocks) {
    const uint16_t* peaks = args.peaks + int64_t{t} * args.max_rated * args.max_blocks + first + 8 * lane;
    const float* grown = args.grown + int64_t{t} * args.max_rated;
#pragma unroll 4
    for (int32_t row = warp; row < task.rows; row += kWarps) {
      const EightPeaks of_row(peaks + row * args.max_blocks);
      const float less = grown[row];
#pragma unroll
      for (int i = 0; i < 8; ++i) best[i] = fmaxf(best[i], of_row.values[i] - less);
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) parts[warp][8 * lane + i] = best[i];
  __syncthreads();
  if (own >= task.blocks) return;
  float most = parts[0][threadIdx.x];
  for (int other = 1; other < kWarps; ++other) most = fmaxf(most, parts[other][threadIdx.x]);
  scores[rated_block(args, task, t, own)] = most * kLn2;
}

// Blocks that are no candidates come last.
__global__ void unrated_kernel(RatingArgs args) {
  const RatingTask& task = args.tasks[blockIdx.y];
  if (task.candidates < 0) return;
  float* scores = args.params.scores + int64_t{task.list} * args.params.rows.stride;
  for (int32_t j = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x); j < task.visible;
       j += static_cast<int32_t>(gridDim.x) * kThreads)
    scores[j] = kNoRating;
}

// Attention of the sampled rows to 256 blocks: {far, of that the nearest segment, mass ln mass, p log2 p}.
__global__ void __launch_bounds__(kThreads) mass_kernel(RatingArgs args) {
  __shared__ float parts[kWarps][kThreads];
  const int32_t t = static_cast<int32_t>(blockIdx.y);
  const RatingTask task = args.tasks[t];
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kThreads;
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  if (first >= task.visible) return;
  float masses[8] = {};
  float logs = 0;
  if (first + 8 * lane < task.visible) {
    const uint16_t* peaks = args.peaks + int64_t{t} * args.max_rated * args.max_blocks + first + 8 * lane;
    const float* grown = args.grown + int64_t{t} * args.max_rated;
#pragma unroll 4
    for (int32_t row = warp; row < task.rows; row += kWarps) {
      const EightPeaks of_row(peaks + row * args.max_blocks);
      const float less = grown[row];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int32_t j = first + 8 * lane + i;
        const float log_p = of_row.values[i] - less;
        const float p = j > 0 && j < task.visible ? exp2f(log_p) : 0.0f;
        masses[i] += p;
        if (p > 0) logs += p * log_p;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) parts[warp][8 * lane + i] = masses[i];
  __syncthreads();
  float mass = 0;
  for (int other = 0; other < kWarps; ++other) mass += parts[other][threadIdx.x];
  const int32_t j = first + static_cast<int32_t>(threadIdx.x);
  const int32_t distant = task.visible - args.params.rows.grid.blocks_per_segment();
  const float nearer = j >= (distant > 1 ? distant : 1) ? mass : 0.0f;
  float4 sums;
  sums.x = block_sum(mass);
  sums.y = block_sum(nearer);
  sums.z = block_sum(mass > 0 ? mass * logf(mass) : 0.0f);
  sums.w = block_sum(logs);
  if (threadIdx.x == 0) args.mass[t * ((args.max_blocks + kThreads - 1) / kThreads) + blockIdx.x] = sums;
}

__global__ void sample_kernel(RatingArgs args) {
  const int32_t t = static_cast<int32_t>(blockIdx.x);
  const RatingTask& task = args.tasks[t];
  if (task.rows == 0) return;
  float4 sums = make_float4(0, 0, 0, 0);
  const int32_t pieces = (task.visible + kThreads - 1) / kThreads;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < pieces; i += kThreads) {
    const float4 piece = args.mass[t * ((args.max_blocks + kThreads - 1) / kThreads) + i];
    sums.x += piece.x;
    sums.y += piece.y;
    sums.z += piece.z;
    sums.w += piece.w;
  }
  float sink = 0;
  float rows_log = 0;
  for (int32_t row = static_cast<int32_t>(threadIdx.x); row < task.rows; row += kThreads) {
    const int64_t at = int64_t{t} * args.max_rated + row;  // of a sample all rows
    sink += exp2f(args.sink[at] - args.found[at] - args.grown[at]);
    const float far = args.far_sum[at] / (1 + args.far_sum[at]);
    if (far > 0) rows_log += far * logf(far);
  }
  const float far = block_sum(sums.x);
  const float nearer = block_sum(sums.y);
  const float mass_log = block_sum(sums.z);
  const float logs = block_sum(sums.w);
  sink = block_sum(sink);
  rows_log = block_sum(rows_log);
  if (threadIdx.x != 0) return;
  const auto rows = static_cast<float>(task.rows);
  AttentionSample sample;
  sample.sink = sink / rows;
  sample.far = far / rows;
  sample.distant = (far - nearer) / rows;
  if (far > 0) {
    sample.segment_entropy = fmaxf(0.0f, logf(far) - mass_log / far);
    sample.row_entropy = fmaxf(0.0f, (rows_log - logs * kLn2) / far);
  }
  args.params.samples[task.list] = sample;
}

unsigned pieces_of(int64_t count, int64_t size) { return static_cast<unsigned>((count + size - 1) / size); }

}  // namespace

int rating_rows(const RatingArgs& args, bool weigh, void* stream) {
  auto* queue = static_cast<cudaStream_t>(stream);
  const auto tasks = static_cast<unsigned>(args.num_tasks);
  setup_kernel<<<1, kThreads, 0, queue>>>(args, weigh);
  const dim3 grid(std::min(pieces_of(args.max_rows, kWarps), 32u), tasks);
  if (!args.fast) {
    queries_kernel<float><<<grid, kThreads, 0, queue>>>(args);
  } else if (args.params.pages.shape.key_type == DType::kF16) {
    queries_kernel<__half><<<grid, kThreads, 0, queue>>>(args);
  } else {
    queries_kernel<__nv_bfloat16><<<grid, kThreads, 0, queue>>>(args);
  }
  return cudaGetLastError();
}

int rating_finish(const RatingArgs& args, void* stream) {
  auto* queue = static_cast<cudaStream_t>(stream);
  const auto tasks = static_cast<unsigned>(args.num_tasks);
  normalise_kernel<<<dim3(pieces_of(args.max_rated, kThreads), tasks), kThreads, 0, queue>>>(args);
  if (args.params.sampling) {
    mass_kernel<<<dim3(pieces_of(args.max_blocks, kThreads), tasks), kThreads, 0, queue>>>(args);
    sample_kernel<<<tasks, kThreads, 0, queue>>>(args);
  } else {
    unrated_kernel<<<dim3(8, tasks), kThreads, 0, queue>>>(args);
    ratings_kernel<<<dim3(pieces_of(args.max_blocks, kThreads), tasks), kThreads, 0, queue>>>(args);
  }
  return cudaGetLastError();
}

}  // namespace ei::kernels::cuda
