#include <algorithm>

#include "kernels/pages/cuda/page_elements.cuh"
#include "kernels/window_scores/attention_sums.h"
#include "kernels/window_scores/cuda/window_logits.cuh"
#include "kernels/window_scores/cuda/window_scores_cuda.h"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowThreads = 1024;  // rows are long and few

// Products of all queries of one kv_head's group with a tile of its keys: logits [group * window, stride].
__global__ void logits_kernel(WindowScores params, int32_t kv_head, int32_t group, int32_t tile, float* logits,
                              int64_t stride) {
  extern __shared__ float keys[];  // [tile, head_dim + 1]
  const int32_t dim = params.pages.shape.head_dim;
  const DeviceKvHead& head = params.heads[kv_head];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * tile;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < tile * dim; i += kThreads) {
    const int64_t slot = first + i / dim;
    const float key = slot < head.length ? page_element(params.pages, head.pages[slot / params.pages.shape.slots],
                                                        slot % params.pages.shape.slots, i % dim, false)
                                         : 0.0f;
    keys[i / dim * (dim + 1) + i % dim] = key;
  }
  __syncthreads();
  const auto inside = static_cast<int32_t>(threadIdx.x) % tile;
  const int64_t slot = first + inside;
  if (slot >= head.length) return;
  const int32_t at =
      slot < head.listed ? head.listed_positions[slot] : head.tail_position + static_cast<int32_t>(slot - head.listed);
  const float* key = keys + inside * (dim + 1);
  const int64_t rows = group * params.window;
  for (int64_t row = static_cast<int32_t>(threadIdx.x) / tile; row < rows; row += kThreads / tile) {
    const int64_t query = row % params.window;
    const float* q = params.q + query * params.q_stride + (kv_head * group + row / params.window) * dim;
    float sum = 0;
    for (int32_t d = 0; d < dim; ++d) sum += q[d] * key[d];
    logits[row * stride + slot] = at > params.positions[query] ? -INFINITY : params.scale * sum;
  }
}

// What turns a row of logits into shares: its largest one and one over the sum of the rest. With x the distance to the
// largest and S the sum of e^x, the entropy of the shares is ln S - sum(e^x x) / S.
__global__ void softmax_kernel(const float* logits, int64_t stride, int64_t length, float2* shares, float* entropies) {
  const float* row = logits + static_cast<int64_t>(blockIdx.x) * stride;
  float largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < length; i += blockDim.x) largest = fmaxf(largest, row[i]);
  largest = block_max(largest);
  float sum = 0;
  float product = 0;
  if (largest > -INFINITY) {
    for (int64_t i = threadIdx.x; i < length; i += blockDim.x) {
      const float weight = expf(row[i] - largest);
      sum += weight;
      if (weight > 0) product += weight * (row[i] - largest);
    }
  }
  sum = block_sum(sum);
  product = block_sum(product);
  if (threadIdx.x != 0) return;
  shares[blockIdx.x] = {largest, sum > 0 ? 1.0f / sum : 0.0f};
  entropies[blockIdx.x] = sum > 0 ? logf(sum) - product / sum : 0.0f;
}

__global__ void mean_kernel(const float* logits, int64_t stride, int64_t length, const float2* shares, int64_t window,
                            float* scores, int64_t score_stride) {
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (slot >= length) return;
  float sum = 0;
  for (int64_t query = 0; query < window; ++query) {
    const int64_t row = static_cast<int64_t>(blockIdx.y) * window + query;
    const float2 share = shares[row];
    if (share.y > 0) sum += expf(logits[row * stride + slot] - share.x) * share.y;
  }
  scores[static_cast<int64_t>(blockIdx.y) * score_stride + slot] = sum / static_cast<float>(window);
}

// Every head's attention, rounded so that its sum is exact, on top of what was counted before.
__global__ void sum_kernel(const float* logits, int64_t stride, int64_t length, const float2* shares, int64_t window,
                           const double* before, int64_t counted, double* sums, int64_t sum_stride) {
  const int64_t slot = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (slot >= length) return;
  const int64_t at = static_cast<int64_t>(blockIdx.y) * sum_stride + slot;
  double sum = slot < counted ? before[at] : 0.0;
  for (int64_t query = 0; query < window; ++query) {
    const int64_t row = static_cast<int64_t>(blockIdx.y) * window + query;
    const float2 share = shares[row];
    if (share.y <= 0) continue;
    const double attention = __fmul_rn(expf(logits[row * stride + slot] - share.x), share.y);
    sum += __dsub_rn(__dadd_rn(attention, kSumRounding), kSumRounding);
  }
  sums[at] = sum;
}

// The mean over the window, of every head of a group.
__global__ void entropy_kernel(const float* entropies, int64_t window, float* out) {
  float sum = 0;
  for (int64_t query = 0; query < window; ++query) sum += entropies[threadIdx.x * window + query];
  out[threadIdx.x] = sum / static_cast<float>(window);
}

int32_t group_of(const WindowScores& params) { return params.num_heads / static_cast<int32_t>(params.lengths.size()); }

// Of a row of logits: the longest kv_head, rounded up.
int64_t row_floats(const WindowScores& params) {
  const int64_t longest = params.lengths.empty() ? 0 : *std::max_element(params.lengths.begin(), params.lengths.end());
  return (longest + 3) / 4 * 4;
}

// In front of the logits: shares and entropies of the rows.
int64_t head_floats(const WindowScores& params) { return (3 * group_of(params) * params.window + 3) / 4 * 4; }

}  // namespace

int64_t window_score_floats(const WindowScores& params) {
  return head_floats(params) + group_of(params) * params.window * row_floats(params);
}

Status launch_window_scores(const WindowScores& params, void* stream) {
  auto* queue = static_cast<cudaStream_t>(stream);
  const int32_t group = group_of(params);
  const int64_t rows = group * params.window;
  const int64_t stride = row_floats(params);
  const int32_t dim = params.pages.shape.head_dim;
  const int32_t tile = dim <= 128 ? 64 : dim <= 256 ? 32 : 16;
  const size_t shared = static_cast<size_t>(tile) * static_cast<size_t>(dim + 1) * sizeof(float);
  auto* shares = reinterpret_cast<float2*>(params.room);
  float* entropies = params.room + 2 * rows;
  float* logits = params.room + head_floats(params);
  const bool adds = params.sums != nullptr;
  for (size_t h = 0; h < params.lengths.size() && (rows > 0 || adds); ++h) {
    const int64_t length = params.lengths[h];
    if (length == 0) continue;
    const WindowLogits to{
        .kv_head = static_cast<int32_t>(h), .group = group, .length = length, .logits = logits, .stride = stride};
    if (rows > 0) {  // sums of no queries are those that were there
      if (!launch_window_logits(params, to, stream)) {
        const auto tiles = static_cast<unsigned>((length + tile - 1) / tile);
        logits_kernel<<<tiles, kThreads, shared, queue>>>(params, to.kv_head, group, tile, logits, stride);
      }
      softmax_kernel<<<static_cast<unsigned>(rows), kRowThreads, 0, queue>>>(logits, stride, length, shares, entropies);
    }
    const dim3 grid(static_cast<unsigned>((length + kThreads - 1) / kThreads), static_cast<unsigned>(group));
    const int64_t first = static_cast<int64_t>(h) * group * params.score_stride;
    if (adds) {
      sum_kernel<<<grid, kThreads, 0, queue>>>(logits, stride, length, shares, params.window, params.before + first,
                                               params.counted[h], params.sums + first, params.score_stride);
    } else {
      mean_kernel<<<grid, kThreads, 0, queue>>>(logits, stride, length, shares, params.window, params.scores + first,
                                                params.score_stride);
    }
    if (params.entropy != nullptr)
      entropy_kernel<<<1, static_cast<unsigned>(group), 0, queue>>>(entropies, params.window,
                                                                    params.entropy + static_cast<int64_t>(h) * group);
  }
  return launched("window_scores");
}

}  // namespace ei::kernels::cuda
