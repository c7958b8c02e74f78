// The products of a rating by plain loops, one warp a row: for caches and devices that the fast kernels do not serve.
#include "kernels/block_scores/cuda/rating_work.cuh"
#include "kernels/pages/cuda/page_elements.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kThreads = 128;

struct PlainRow {
  const RatingArgs& args;
  const RatingTask& task;
  const float* q;
  int32_t index;  // of the task

  __device__ float logit(int64_t slot) const {
    const DevicePages& pages = args.params.pages;
    const void* page = args.params.heads[task.kv_head].pages[slot / pages.shape.slots];
    float sum = 0;
    for (int32_t d = 0; d < args.dim; ++d) sum += q[d] * page_element(pages, page, slot % pages.shape.slots, d, false);
    return sum * args.scale;
  }
  __device__ float peak(int64_t block) const {
    const int32_t keys = args.params.rows.grid.block;
    float best = -INFINITY;
    for (int64_t slot = block * keys; slot < (block + 1) * keys; ++slot) best = fmaxf(best, logit(slot));
    return best;
  }
};

__device__ void find_own(const PlainRow& row, int32_t in_task, int64_t at, int lane) {
  const RatingArgs& args = row.args;
  const RatingTask& task = row.task;
  const int64_t last = args.params.first_position + token_of(args, task, in_task);
  float best = -INFINITY;
  for (int64_t slot = task.own_begin + lane; slot <= last; slot += 32) best = fmaxf(best, row.logit(slot));
  best = warp_max(best);
  float sum = 0;
  for (int64_t slot = task.own_begin + lane; slot <= last; slot += 32) sum += exp2f(row.logit(slot) - best);
  const float own = best + log2f(warp_sum(sum));
  const float sink = task.visible > 0 ? row.peak(0) : -INFINITY;
  if (lane != 0) return;
  const float high = fmaxf(own, sink);
  args.own[at] = own;
  args.sink[at] = sink;
  args.found[at] = high + log2f(exp2f(own - high) + exp2f(sink - high));
}

__device__ void find_bounds(const PlainRow& row, int64_t at, int lane) {
  const RatingArgs& args = row.args;
  const DevicePages& pages = args.params.pages;
  const int64_t before = int64_t{row.task.kv_head} * args.params.index_supers * 2 * args.dim;
  const auto extreme = [&](int64_t super, int32_t d, bool low) {
    const int64_t place =
        pages.blocked ? pages.layout().element_offset(super, d, low) : (2 * super + low) * args.dim + d;
    return element_at(args.params.index, pages.blocked ? pages.shape.key_type : DType::kF32, before + place);
  };
  const float found = args.found[at];
  for (int64_t super = lane; super < row.task.supers; super += 32) {
    float sum = 0;
    for (int32_t d = 0; d < args.dim; ++d) sum += row.q[d] * extreme(super, d, row.q[d] < 0);
    atomicMax(args.super_bounds + row.index * args.max_supers + super, ordered(sum * args.scale - found));
  }
}

__device__ void find_peaks(const PlainRow& row, int64_t place, int64_t at, int lane) {
  const RatingArgs& args = row.args;
  const float found = args.found[at];
  float sum = 0;
  for (int32_t i = lane; i < row.task.blocks; i += 32) {
    const float peak = row.peak(rated_block(args, row.task, row.index, i)) - found;
    const float share = fminf(fmaxf(peak, -6e4f), 120.0f);
    if (i > 0) sum += exp2f(share);
    args.peaks[place * args.max_blocks + i] = __half_as_ushort(__float2half_rn(share));
  }
  sum = warp_sum(sum);
  if (lane == 0) args.parts_sum[place * args.max_splits] = sum;
}

__global__ void plain_kernel(const __grid_constant__ RatingArgs args, Products kind) {
  const auto index = static_cast<int32_t>(blockIdx.y);
  const RatingTask task = args.tasks[index];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto number = static_cast<int32_t>(blockIdx.x * (kThreads / 32) + threadIdx.x / 32);
  if (number >= task.rows || (kind == Products::kBounds && task.candidates < 0)) return;
  const int32_t in_task = rating_row(args, task, index, number);
  const int64_t at = int64_t{index} * args.max_rows + in_task;
  const PlainRow row{args, task, static_cast<const float*>(args.queries) + at * args.dim, index};
  if (kind == Products::kOwn) find_own(row, in_task, at, lane);
  if (kind == Products::kBounds) find_bounds(row, at, lane);
  if (kind == Products::kPeaks) find_peaks(row, int64_t{index} * args.max_rated + number, at, lane);
}

// Extremes of super-blocks; the first one leaves out block 0, and one that has no keys then is zero.
__global__ void supers_kernel(PackSupers params) {
  const auto h = static_cast<int32_t>(blockIdx.y);
  const int64_t super = params.first + blockIdx.x;
  const int32_t dim = params.pages.shape.head_dim;
  const int32_t slots = params.pages.shape.slots;
  for (auto d = static_cast<int32_t>(threadIdx.x); d < dim; d += static_cast<int32_t>(blockDim.x)) {
    float high = -INFINITY;
    float low = INFINITY;
    for (int64_t slot = super * params.super_keys; slot < (super + 1) * params.super_keys; ++slot) {
      if (slot < params.block) continue;
      const float key = page_element(params.pages, params.heads[h].pages[slot / slots], slot % slots, d, false);
      high = fmaxf(high, key);
      low = fminf(low, key);
    }
    if (high < low) high = low = 0;
    float* to = static_cast<float*>(params.index) + (h * params.index_supers + super) * 2 * dim;
    to[d] = high;
    to[dim + d] = low;
  }
}

// The same for blocked pages: a thread has 16 bytes of every eighth key.
template <typename T>
__global__ void __launch_bounds__(kThreads) blocked_supers_kernel(PackSupers params) {
  __shared__ float high[kThreads][9];
  __shared__ float low[kThreads][9];
  const auto h = static_cast<int32_t>(blockIdx.y);
  const int64_t super = params.first + blockIdx.x;
  const KvLayout layout = params.pages.layout();
  const int32_t pieces = params.pages.shape.head_dim / 8;
  const int32_t together = kThreads / pieces;  // keys at a time
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t piece = thread % pieces;
  float top[8];
  float bottom[8];
  for (int i = 0; i < 8; ++i) {
    top[i] = -INFINITY;
    bottom[i] = INFINITY;
  }
  for (int32_t key = thread / pieces; key < params.super_keys && thread < together * pieces; key += together) {
    const int64_t slot = super * params.super_keys + key;
    if (slot < params.block) continue;
    const auto* page = static_cast<const char*>(params.heads[h].pages[slot / params.pages.shape.slots]);
    const int64_t at = layout.piece_in_page(slot % params.pages.shape.slots, 8 * piece, false);
    const uint4 words = *reinterpret_cast<const uint4*>(page + at);
    const T* values = reinterpret_cast<const T*>(&words);
    for (int i = 0; i < 8; ++i) {
      top[i] = fmaxf(top[i], to_float(values[i]));
      bottom[i] = fminf(bottom[i], to_float(values[i]));
    }
  }
  for (int i = 0; i < 8; ++i) {
    high[thread][i] = top[i];
    low[thread][i] = bottom[i];
  }
  __syncthreads();
  T* to = static_cast<T*>(params.index) + h * params.index_supers * 2 * params.pages.shape.head_dim;
  for (int32_t d = thread; d < params.pages.shape.head_dim; d += kThreads) {
    float most = -INFINITY;
    float least = INFINITY;
    for (int32_t row = 0; row < together; ++row) {
      most = fmaxf(most, high[row * pieces + d / 8][d % 8]);
      least = fminf(least, low[row * pieces + d / 8][d % 8]);
    }
    if (most < least) most = least = 0;
    to[layout.element_offset(super, d, false)] = from_float<T>(most);
    to[layout.element_offset(super, d, true)] = from_float<T>(least);
  }
}

}  // namespace

int rating_plain(const RatingArgs& args, Products kind, int, void* stream) {
  constexpr int kRows = kThreads / 32;
  const dim3 grid(static_cast<unsigned>((args.max_rows + kRows - 1) / kRows), static_cast<unsigned>(args.num_tasks));
  plain_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(args, kind);
  return cudaGetLastError();
}

int64_t super_index_bytes(const DevicePages& pages, int64_t supers) {
  const int64_t whole = (supers + kPanelKeys - 1) / kPanelKeys * kPanelKeys;
  return whole * 2 * pages.shape.head_dim * (pages.blocked ? 2 : 4);
}

Status launch_pack_supers(const PackSupers& params, void* stream) {
  if (params.last <= params.first) return {};
  const dim3 grid(static_cast<unsigned>(params.last - params.first), static_cast<unsigned>(params.kv_heads));
  auto* queue = static_cast<cudaStream_t>(stream);
  if (!params.pages.blocked) {
    supers_kernel<<<grid, kThreads, 0, queue>>>(params);
  } else if (params.pages.shape.key_type == DType::kF16) {
    blocked_supers_kernel<__half><<<grid, kThreads, 0, queue>>>(params);
  } else {
    blocked_supers_kernel<__nv_bfloat16><<<grid, kThreads, 0, queue>>>(params);
  }
  return launched("pack_keys");
}

}  // namespace ei::kernels::cuda
