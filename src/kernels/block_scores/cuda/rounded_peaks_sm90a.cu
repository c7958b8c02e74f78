// The peaks of a rating (rating_work.cuh) on Hopper with queries and keys of 8 bits (rounded_keys.h).
//
// Persistent CTAs take every n-th item: 256 rows and 32 units of keys. A warp brings tiles of two units by bulk copies;
// two warpgroups multiply, 64 rows at a time. Where an item has more than 128 rows, a tile is multiplied with two times
// 64 rows of a warpgroup, otherwise two tiles with 64: either way one product runs while the other is looked at. The
// best key of a panel lies in the accumulators of one lane.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "kernels/attention/cuda/hopper.cuh"
#include "kernels/attention/cuda/rows.cuh"
#include "kernels/attention/cuda/wgmma.cuh"
#include "kernels/block_scores/cuda/rating_tables.cuh"
#include "kernels/cuda/elements.cuh"

namespace ei::kernels::cuda {
namespace {

constexpr int kTileUnits = 2;
constexpr int kTileKeys = kTileUnits * kUnitKeys;
constexpr int kItemUnits = kSplitPanels / kUnitPanels;
static_assert(kItemUnits == 32);  // one a lane
constexpr int kThreads = 384;
constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: its bits and an integer's, added, are the float of both
constexpr int32_t kMagicBits = 0x4B400000;

template <int kHeadDim>
struct Config {
  static constexpr int kDim = kHeadDim;
  static constexpr KvLayout kLayout{kDim, 1};
  static constexpr int kGroupBytes = kLayout.half_bytes();  // eight rows
  static constexpr int kUnitBytes = kUnitPanels * kGroupBytes;
  static constexpr int kStageBytes = kTileUnits * kUnitBytes;
  static constexpr int kStages = std::min(200 * 1024 / kStageBytes, 12);
};

template <class C>
struct Shared {
  uint64_t full[C::kStages];
  uint64_t empty[C::kStages];
  alignas(16) float scales[C::kStages][kTileUnits * kUnitPanels];
  CloseTasks<kThreads> close;
};

// Units of an item.
__device__ __forceinline__ int32_t units_of(const RatingArgs& args, const RatingTask& task, const RatingItem& item) {
  const int32_t left = task.blocks * args.parts / kUnitPanels - item.split * kItemUnits;
  return left < kItemUnits ? left : kItemUnits;
}

template <class C>
__device__ void bring_tiles(const RatingArgs& args, const RatingTables& tables, Shared<C>& shared, uint32_t tiles,
                            int32_t items) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  RatingStage at;
  for (auto number = static_cast<int32_t>(blockIdx.x); number < items; number += static_cast<int32_t>(gridDim.x)) {
    const RatingItem item = find_item(args, tables, Products::kPeaks, number);
    const RatingTask task = tables.tasks[item.task];
    const int32_t units = units_of(args, task, item);
    int64_t unit = item.split * kItemUnits + lane;  // of the kv_head; a super-block where some are candidates
    if (task.candidates >= 0 && lane < units) unit = args.super_list[item.task * args.max_supers + unit];
    unit += task.kv_head * args.params.rounded.units;
    const auto* codes = static_cast<const uint8_t*>(args.params.rounded.codes) + unit * C::kUnitBytes;
    const float* scales = args.params.rounded.scales + unit * kUnitPanels;
    for (int first = 0; first < units; first += kTileUnits, at.template advance<C::kStages>()) {
      const int count = units - first < kTileUnits ? units - first : kTileUnits;
      barrier_wait(&shared.empty[at.stage], at.parity ^ 1);
      if (lane == 0)
        barrier_expect(&shared.full[at.stage],
                       static_cast<uint32_t>(count * (C::kUnitBytes + kUnitPanels * sizeof(float))));
      __syncwarp();
      const int own = lane - first;
      if (own < 0 || own >= count) continue;
      bulk_copy(tiles + at.stage * C::kStageBytes + own * C::kUnitBytes, codes, C::kUnitBytes, &shared.full[at.stage]);
      bulk_copy(shared_address(&shared.scales[at.stage][own * kUnitPanels]), scales, kUnitPanels * sizeof(float),
                &shared.full[at.stage]);
    }
  }
}

template <class C>
struct Consumer {
  static constexpr int kDim = C::kDim;
  static constexpr int kSwizzle = C::kLayout.atom_row_bytes();
  static constexpr int kSteps = kDim / 32;
  static constexpr int kSums = kTileKeys / 2;

  // 64 rows of an item, two a thread.
  struct Rows {
    uint32_t q[4 * kSteps];
    int64_t place[2];  // among the rows that rate; -1: none
    float scale[2];    // of an integer, but for the panel's
    float found[2];
    float sum[2];
  };

  const RatingArgs& args;
  const RatingTables& tables;
  Shared<C>& shared;
  const uint32_t tiles;
  const int warpgroup;
  RatingStage at{};

  RatingItem item{};
  RatingTask task{};
  int32_t units = 0;

  __device__ __forceinline__ int lane() const { return static_cast<int>(threadIdx.x % 32); }
  static constexpr int step_offset(int step) {
    return step * 32 / kSwizzle * C::kLayout.atom_bytes() + step * 32 % kSwizzle;
  }

  // Elements `first` and the next three of a query: of one that speaks for itself, or number `id` of the others.
  __device__ __forceinline__ void load_four(const float* own, int64_t id, int first, float (&to)[4]) const {
    if (own != nullptr) {
      const float* from = own + first;
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const float2 pair = *reinterpret_cast<const float2*>(from + i);
        to[i] = pair.x;
        to[i + 1] = pair.y;
      }
      return;
    }
    const uint2 words = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(args.queries) + id * kDim + first);
    const uint32_t pairs[2] = {words.x, words.y};
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t pair = pairs[i / 2];
      const bool half = args.params.pages.shape.key_type == DType::kF16;
      const float2 both = half ? __half22float2(*reinterpret_cast<const __half2*>(&pair))
                               : __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
      to[i] = both.x;
      to[i + 1] = both.y;
    }
  }

  __device__ __forceinline__ void load_rows(int32_t first, Rows& rows) const {
    const int32_t row = first + warpgroup * 64 + static_cast<int32_t>(threadIdx.x % 128 / 32) * 16 + lane() / 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int32_t place = item.row + row + 8 * r;
      const bool there = place < task.rows;
      const int64_t base = int64_t{item.task} * args.max_rows;
      const int32_t in_task = there ? rating_row(args, task, item.task, place) : 0;
      rows.place[r] = there ? int64_t{item.task} * args.max_rated + place : -1;
      rows.found[r] = args.found[base + in_task];
      rows.sum[r] = 0;
      const float* own = task.query == GroupQuery::kEach ? own_query(args, task, in_task) : nullptr;
      float values[2 * kSteps][4];
      float most = 0;
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i) {
        load_four(own, base + in_task, i * 16 + lane() % 4 * 4, values[i]);
#pragma unroll
        for (int e = 0; e < 4; ++e) most = fmaxf(most, fabsf(values[i][e]));
      }
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float inverse = most > 0 ? 127.0f / most : 0.0f;
      rows.scale[r] = most * (args.scale / 127.0f);
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i) {
        uint32_t word = 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) word |= (__float_as_uint(fmaf(values[i][e], inverse, kMagic)) & 0xffu) << (e * 8);
        rows.q[i / 2 * 4 + i % 2 * 2 + r] = word;
      }
    }
  }

  __device__ __forceinline__ void multiply(int32_t (&sums)[kSums], const Rows& rows, int stage) const {
    const uint64_t keys = operand<kSwizzle>(tiles + stage * C::kStageBytes, 16, C::kGroupBytes);
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      wgmma_rs(sums, rows.q + 4 * step, keys + (step_offset(step) >> 4), step != 0);
    wgmma_commit();
  }

  // The best keys of panels 2 * column and 2 * column + 1 of a tile's unit u, for row r.
  __device__ __forceinline__ void panel_shares(const int32_t (&sums)[kSums], const Rows& rows, int u, int r,
                                               float2 steps, float (&share)[2]) const {
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const int32_t* group = sums + (8 * u + 4 * p) * 4 + 2 * r;
      const int32_t low = __vimax3_s32(group[0], group[1], group[4]);
      const int32_t high = __vimax3_s32(group[5], group[8], group[9]);
      const int32_t best = __vimax3_s32(low, high, max(group[12], group[13]));
      const float step = rows.scale[r] * (p == 0 ? steps.x : steps.y);
      const float value = fmaf(__int_as_float(kMagicBits + best), step, fmaf(-kMagic, step, -rows.found[r]));
      share[p] = fminf(fmaxf(value, -6e4f), 120.0f);
    }
  }

  // Peaks of the units `first` and behind it, of a tile that lies in `stage`.
  __device__ __forceinline__ void keep(const int32_t (&sums)[kSums], Rows& rows, int first, int stage) const {
    const int column = lane() % 4;
#pragma unroll
    for (int u = 0; u < kTileUnits; ++u) {
      if (first + u >= units) break;
      const float2 steps = *reinterpret_cast<const float2*>(&shared.scales[stage][u * kUnitPanels + 2 * column]);
      const int32_t panel = (item.split * kItemUnits + first + u) * kUnitPanels + 2 * column;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float share[2];
        panel_shares(sums, rows, u, r, steps, share);
        if (args.parts == 1) {
          if (panel > 0) rows.sum[r] += exp2_fast(share[0]);
          rows.sum[r] += exp2_fast(share[1]);
          if (rows.place[r] >= 0)
            *reinterpret_cast<uint32_t*>(args.peaks + rows.place[r] * args.max_blocks + panel) =
                pack_pair<__half>(share[0], share[1]);
          continue;
        }
        float best = fmaxf(share[0], share[1]);
        if (args.parts == 4) best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
        if (args.parts == 4 && column % 2 != 0) continue;
        const int32_t block = panel >> args.parts / 2;
        if (block > 0) rows.sum[r] += exp2_fast(best);
        if (rows.place[r] >= 0)
          args.peaks[rows.place[r] * args.max_blocks + block] = __half_as_ushort(__float2half_rn(best));
      }
    }
  }

  __device__ __forceinline__ void write_sums(const Rows& rows) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = rows.sum[r];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (lane() % 4 == 0 && rows.place[r] >= 0) args.parts_sum[rows.place[r] * args.max_splits + item.split] = sum;
    }
  }

  __device__ __forceinline__ void release(int stage) const {
    __syncwarp();
    if (kLanesArriving == 32 || lane() == 0) barrier_arrive(&shared.empty[stage]);
  }
  __device__ __forceinline__ int next_tile() {
    const int stage = at.stage;
    barrier_wait(&shared.full[stage], at.parity);
    at.template advance<C::kStages>();
    return stage;
  }

  // A tile with two times 64 rows.
  __device__ __forceinline__ void run_rows(int32_t (&one)[kSums], int32_t (&two)[kSums], Rows& upper, Rows& lower) {
    for (int first = 0; first < units; first += kTileUnits) {
      const int stage = next_tile();
      pin(one);
      pin(two);
      wgmma_fence();
      multiply(one, upper, stage);
      multiply(two, lower, stage);
      wgmma_wait<1>();
      pin(one);
      keep(one, upper, first, stage);
      wgmma_wait<0>();
      pin(two);
      keep(two, lower, first, stage);
      release(stage);
    }
  }

  // Two tiles with 64 rows; the last one of an item may be alone.
  __device__ __forceinline__ void run_tiles(int32_t (&one)[kSums], int32_t (&two)[kSums], Rows& rows) {
    int first = 0;
    for (; first + kTileUnits < units; first += 2 * kTileUnits) {
      const int stage = next_tile();
      const int next = next_tile();
      pin(one);
      pin(two);
      wgmma_fence();
      multiply(one, rows, stage);
      multiply(two, rows, next);
      wgmma_wait<1>();
      pin(one);
      keep(one, rows, first, stage);
      release(stage);
      wgmma_wait<0>();
      pin(two);
      keep(two, rows, first + kTileUnits, next);
      release(next);
    }
    if (first >= units) return;
    const int stage = next_tile();
    pin(one);
    wgmma_fence();
    multiply(one, rows, stage);
    wgmma_wait<0>();
    pin(one);
    keep(one, rows, first, stage);
    release(stage);
  }

  __device__ __forceinline__ void run(int32_t items) {
    Rows upper;
    Rows lower;
    int32_t one[kSums];
    int32_t two[kSums];
    for (auto number = static_cast<int32_t>(blockIdx.x); number < items; number += static_cast<int32_t>(gridDim.x)) {
      item = find_item(args, tables, Products::kPeaks, number);
      task = tables.tasks[item.task];
      units = __shfl_sync(~0u, units_of(args, task, item), 0);
      load_rows(0, upper);
      if (__shfl_sync(~0u, task.rows - item.row, 0) > kRatingRows) {
        load_rows(kRatingRows, lower);
        run_rows(one, two, upper, lower);
        write_sums(lower);
      } else {
        run_tiles(one, two, upper);
      }
      write_sums(upper);
    }
  }
};

template <class C>
__global__ void __launch_bounds__(kThreads, 1) rounded_peaks_kernel(const __grid_constant__ RatingArgs args) {
  extern __shared__ __align__(1024) uint8_t rounded_tiles[];
  __shared__ Shared<C> shared;
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::kStages; ++i) {
      barrier_init(&shared.full[i], 1);
      barrier_init(&shared.empty[i], 8 * kLanesArriving);
    }
    barrier_init_fence();
  }
  const RatingTables tables = shared.close.bring(args, Products::kPeaks);
  __syncthreads();
  const int32_t items = tables.first[args.num_tasks];
  const int warpgroup = static_cast<int>(threadIdx.x / 128);
  if (warpgroup == 0) {
    give_registers<40>();
    if (threadIdx.x < 32) bring_tiles<C>(args, tables, shared, shared_address(rounded_tiles), items);
  } else {
    take_registers<232>();
    Consumer<C>{args, tables, shared, shared_address(rounded_tiles), warpgroup - 1}.run(items);
  }
}

template <int kDim>
int launch_dim(const RatingArgs& args, int sms, cudaStream_t stream) {
  using C = Config<kDim>;
  constexpr int kBytes = C::kStages * C::kStageBytes;
  const cudaError_t error =
      cudaFuncSetAttribute(rounded_peaks_kernel<C>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  rounded_peaks_kernel<C><<<sms, kThreads, kBytes, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

int rounded_peaks(const RatingArgs& args, int sms, void* stream) {
  auto* queue = static_cast<cudaStream_t>(stream);
  switch (args.dim) {
    case 64: return launch_dim<64>(args, sms, queue);
    case 96: return launch_dim<96>(args, sms, queue);
    case 128: return launch_dim<128>(args, sms, queue);
    default: return launch_dim<256>(args, sms, queue);
  }
}

}  // namespace ei::kernels::cuda
