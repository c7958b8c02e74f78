// A warpgroup of rating_sm90a: 64 rows of every item, products by wgmma, what is kept of them.
#pragma once

#include "kernels/block_scores/cuda/rating_sm90a.cuh"
#include "kernels/cuda/elements.cuh"

namespace ei::kernels::cuda {

template <class Config>
struct RatingConsumer {
  using T = typename Config::Element;
  static constexpr int kDim = Config::kDim;
  static constexpr int kKeys = Config::kKeys;
  static constexpr int kMine = Config::kMine;
  static constexpr int kSwizzle = Config::kLayout.atom_row_bytes();
  static constexpr bool kBounds = Config::kKind == Products::kBounds;
  static constexpr int kWords = kDim / 4;

  const RatingArgs& args;
  const RatingTables& tables;
  RatingShared<Config>& shared;
  const uint32_t tiles;
  const int warpgroup;
  RatingStage at{};

  RatingItem item{};
  RatingTask task{};
  RatingRange range{};
  int64_t ids[2] = {-1, -1};     // of a thread's two rows among all; -1: none
  int64_t places[2] = {-1, -1};  // among those that rate

  __device__ __forceinline__ int lane() const { return threadIdx.x % 32; }
  __device__ __forceinline__ int row() const { return warpgroup * 64 + threadIdx.x % 128 / 32 * 16 + lane() / 4; }
  static constexpr int step_offset(int step) {
    return step * 32 / kSwizzle * Config::kLayout.atom_bytes() + step * 32 % kSwizzle;
  }
  static __device__ __forceinline__ uint32_t positive(uint32_t pair) {
    if constexpr (std::is_same_v<T, __half>) {
      const __half2 value = __hmax2(*reinterpret_cast<__half2*>(&pair), __float2half2_rn(0));
      return *reinterpret_cast<const uint32_t*>(&value);
    } else {
      const __nv_bfloat162 value = __hmax2(*reinterpret_cast<__nv_bfloat162*>(&pair), __float2bfloat162_rn(0));
      return *reinterpret_cast<const uint32_t*>(&value);
    }
  }
  static __device__ __forceinline__ uint32_t negative(uint32_t pair) {
    if constexpr (std::is_same_v<T, __half>) {
      const __half2 value = __hmin2(*reinterpret_cast<__half2*>(&pair), __float2half2_rn(0));
      return *reinterpret_cast<const uint32_t*>(&value);
    } else {
      const __nv_bfloat162 value = __hmin2(*reinterpret_cast<__nv_bfloat162*>(&pair), __float2bfloat162_rn(0));
      return *reinterpret_cast<const uint32_t*>(&value);
    }
  }

  // A query as the model left it, rounded on the way.
  __device__ __forceinline__ void load_own(int r, int32_t row, uint32_t (&q)[kWords]) const {
    const float* from = own_query(args, task, row < 0 ? 0 : row) + lane() % 4 * 2;
#pragma unroll
    for (int pair = 0; pair < kDim / 8; ++pair) {
      const float2 both = *reinterpret_cast<const float2*>(from + pair * 8);
      const T rounded[2] = {from_float<T>(both.x), from_float<T>(both.y)};
      q[pair * 2 + r] = row < 0 ? 0u : *reinterpret_cast<const uint32_t*>(rounded);
    }
  }

  __device__ __forceinline__ void begin(int32_t number, uint32_t (&q)[kWords]) {
    item = find_item(args, tables, Config::kKind, number);
    task = tables.tasks[item.task];
    range = range_of<Config>(args, task, item);
    range.tiles = __shfl_sync(~0u, range.tiles, 0);
    const int64_t base = int64_t{item.task} * args.max_rows;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int32_t place = item.row + row() + 8 * r;
      const bool there = place < task.rows;
      places[r] = there ? int64_t{item.task} * args.max_rated + place : -1;
      ids[r] = there ? base + rating_row(args, task, item.task, place) : -1;
      if (task.query == GroupQuery::kEach) {
        load_own(r, ids[r] < 0 ? -1 : static_cast<int32_t>(ids[r] - base), q);
        continue;
      }
      const auto* from =
          reinterpret_cast<const uint32_t*>(static_cast<const T*>(args.queries) + (ids[r] < 0 ? 0 : ids[r]) * kDim) +
          lane() % 4;
#pragma unroll
      for (int pair = 0; pair < kDim / 8; ++pair) q[pair * 2 + r] = ids[r] < 0 ? 0u : from[pair * 4];
    }
  }

  __device__ __forceinline__ void multiply(float (&scores)[kKeys / 2], const uint32_t (&q)[kWords], int stage) const {
    const uint64_t keys = operand<kSwizzle>(tiles + stage * Config::kStageBytes, 16, Config::kPanelBytes);
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step)
      wgmma_rs<T, false>(scores, q + 4 * step, keys + (step_offset(step) >> 4), step != 0);
    wgmma_commit();
  }
  __device__ __forceinline__ void multiply_extremes(float (&scores)[kKeys / 2], const uint32_t (&high)[kWords],
                                                    const uint32_t (&low)[kWords], int stage) const {
    const uint32_t begin_of = tiles + stage * Config::kStageBytes;
    const uint64_t largest = operand<kSwizzle>(begin_of, 16, Config::kPanelBytes);
    const uint64_t smallest = operand<kSwizzle>(begin_of + Config::kHalfBytes, 16, Config::kPanelBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step)
      wgmma_rs<T, false>(scores, high + 4 * step, largest + (step_offset(step) >> 4), step != 0);
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step)
      wgmma_rs<T, false>(scores, low + 4 * step, smallest + (step_offset(step) >> 4), 1);
    wgmma_commit();
  }

  __device__ __forceinline__ void wait_tile() { barrier_wait(&shared.full[at.stage], at.parity); }
  __device__ __forceinline__ void release(int stage) {
    __syncwarp();
    if (kLanesArriving == 32 || lane() == 0) barrier_arrive(&shared.empty[stage]);
  }

  // The best of each panel's keys, of one of a thread's rows: lane c of four gets panels kMine * c and following.
  __device__ __forceinline__ void panel_peaks(const float (&scores)[kKeys / 2], int r, float (&best)[kMine]) const {
    const bool upper = (lane() & 2) != 0;
    const bool odd = (lane() & 1) != 0;
    float half[2 * kMine];
#pragma unroll
    for (int i = 0; i < 2 * kMine; ++i) {
      const float first = fmaxf(scores[4 * i + 2 * r], scores[4 * i + 2 * r + 1]);
      const float second = fmaxf(scores[4 * (i + 2 * kMine) + 2 * r], scores[4 * (i + 2 * kMine) + 2 * r + 1]);
      half[i] = fmaxf(upper ? second : first, __shfl_xor_sync(~0u, upper ? first : second, 2));
    }
#pragma unroll
    for (int i = 0; i < kMine; ++i)
      best[i] = fmaxf(odd ? half[i + kMine] : half[i], __shfl_xor_sync(~0u, odd ? half[i] : half[i + kMine], 1));
  }

  // Peaks of one tile to memory, and their sum.
  __device__ __forceinline__ void keep_peaks(const float (&scores)[kKeys / 2], int tile, const float (&found)[2],
                                             float (&sum)[2]) const {
    const int32_t panel = tile * Config::kPanels + kMine * (lane() % 4);  // in the range
    const int32_t first = (range.first + panel) / args.parts;             // block
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float best[kMine];
      panel_peaks(scores, r, best);
      int count = kMine;
      if (args.parts == 2) {
#pragma unroll
        for (int i = 0; i < kMine / 2; ++i) best[i] = fmaxf(best[2 * i], best[2 * i + 1]);
        count = kMine / 2;
      } else if (args.parts == 4) {
        if constexpr (kMine == 4) best[0] = fmaxf(fmaxf(best[0], best[1]), fmaxf(best[2], best[3]));
        count = 1;
      }
      const int32_t left = (range.panels - panel) / args.parts;
      uint16_t halves[kMine];
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        const float share = fminf(fmaxf(best[i] * args.scale - found[r], -6e4f), 120.0f);
        const bool there = i < count && i < left;
        if (there && first + i > 0) sum[r] += exp2_fast(share);
        halves[i] = __half_as_ushort(__float2half_rn(share));
      }
      if (places[r] < 0) continue;
      uint16_t* to = args.peaks + places[r] * args.max_blocks + first;
      if (count == kMine && left >= kMine) {
        if constexpr (kMine == 4) {
          *reinterpret_cast<ushort4*>(to) = make_ushort4(halves[0], halves[1], halves[2], halves[3]);
        } else {
          *reinterpret_cast<ushort2*>(to) = make_ushort2(halves[0], halves[1]);
        }
      } else {
#pragma unroll
        for (int i = 0; i < kMine; ++i)
          if (i < count && i < left) to[i] = halves[i];
      }
    }
  }

  __device__ __forceinline__ void run_peaks(int32_t items) {
    uint32_t q[kWords];
    float even[kKeys / 2];
    float odd[kKeys / 2];
    for (int32_t number = static_cast<int32_t>(blockIdx.x); number < items; number += static_cast<int32_t>(gridDim.x)) {
      begin(number, q);
      float found[2];
      float sum[2] = {0, 0};
#pragma unroll
      for (int r = 0; r < 2; ++r) found[r] = ids[r] < 0 ? 0.0f : args.found[ids[r]];
      // Two tiles at a time: the second is multiplied while the first is looked at. What was in flight from one round
      // to the next ptxas would serialise.
      for (int tile = 0; tile < range.tiles; tile += 2) {
        wait_tile();
        const int first = at.stage;
        at.template advance<Config::kStages>();
        wait_tile();
        const int second = at.stage;
        at.template advance<Config::kStages>();
        pin(even);
        pin(odd);
        wgmma_fence();
        multiply(even, q, first);
        multiply(odd, q, second);
        wgmma_wait<1>();
        pin(even);
        release(first);
        keep_peaks(even, tile, found, sum);
        wgmma_wait<0>();
        pin(odd);
        release(second);
        keep_peaks(odd, tile + 1, found, sum);
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
        sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
        if (lane() % 4 == 0 && places[r] >= 0) args.parts_sum[places[r] * args.max_splits + item.split] = sum[r];
      }
    }
  }

  __device__ __forceinline__ int32_t position(int r) const {
    const int64_t in_task = ids[r] < 0 ? 0 : ids[r] - int64_t{item.task} * args.max_rows;
    return args.params.first_position + token_of(args, task, static_cast<int32_t>(in_task));
  }

  __device__ __forceinline__ void run_own(int32_t items) {
    uint32_t q[kWords];
    float scores[kKeys / 2];
    float factor[2];
    for (int32_t number = static_cast<int32_t>(blockIdx.x); number < items; number += static_cast<int32_t>(gridDim.x)) {
      begin(number, q);
      const int32_t newest[2] = {position(0), position(1)};
      RowState state;
      for (int tile = 0; tile < range.tiles; ++tile) {
        wait_tile();
        pin(scores);
        wgmma_fence();
        multiply(scores, q, at.stage);
        wgmma_wait<0>();
        pin(scores);
        release(at.stage);
        at.template advance<Config::kStages>();
        if (tile + 1 < range.tiles) {
          const int32_t first = (range.first + tile * Config::kPanels) * kPanelKeys + lane() % 4 * 2;
#pragma unroll
          for (int i = 0; i < kKeys / 8; ++i) {
#pragma unroll
            for (int c = 0; c < 4; ++c)
              if (first + 8 * i + c % 2 > newest[c / 2]) scores[4 * i + c] = -INFINITY;
          }
          softmax_step<true>(scores, args.scale, state, factor);
          continue;
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float best[kMine];
          panel_peaks(scores, r, best);
          float sink = best[0];
#pragma unroll
          for (int i = 1; i < kMine; ++i)
            if (i < args.parts) sink = fmaxf(sink, best[i]);
          sink *= args.scale;
          float sum = state.sum[r];
          sum += __shfl_xor_sync(~0u, sum, 1);
          sum += __shfl_xor_sync(~0u, sum, 2);
          if (lane() % 4 != 0 || ids[r] < 0) continue;
          const float own = state.base[r] + log2f(sum);
          const float high = fmaxf(own, sink);
          args.own[ids[r]] = own;
          args.sink[ids[r]] = sink;
          args.found[ids[r]] = high + log2f(exp2f(own - high) + exp2f(sink - high));
        }
      }
    }
  }

  // Of the first 2 * kHalf columns a lane and the one kMask away each take one half. All indices are constants: an
  // array that is indexed by anything else lies in memory.
  template <int kMask, int kHalf, int kColumns>
  __device__ __forceinline__ void halve(float (&best)[kColumns], int32_t& begin_at) const {
    const bool upper = (lane() & kMask) != 0;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float keep = upper ? best[i + kHalf] : best[i];
      const float give = upper ? best[i] : best[i + kHalf];
      best[i] = fmaxf(keep, __shfl_xor_sync(~0u, give, kMask));
    }
    if (upper) begin_at += kHalf;
  }

  // The best of a tile's super-blocks by all rows of the warp. A lane ends up with an eighth of the columns, each the
  // best of its 16 rows.
  __device__ __forceinline__ void keep_bounds(const float (&scores)[kKeys / 2], int tile,
                                              const float (&found)[2]) const {
    constexpr int kColumns = kKeys / 4;  // of a thread: two of every eight
    const int32_t first = tile * kKeys + lane() % 4 * 2;
    float best[kColumns];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const bool there = first + i / 2 * 8 + i % 2 < task.supers;
      const float upper = there ? scores[i / 2 * 4 + i % 2] * args.scale - found[0] : kNoRating;
      const float under = there ? scores[i / 2 * 4 + 2 + i % 2] * args.scale - found[1] : kNoRating;
      best[i] = fmaxf(upper, under);
    }
    int32_t begin_at = 0;
    halve<16, kColumns / 2>(best, begin_at);
    halve<8, kColumns / 4>(best, begin_at);
    halve<4, kColumns / 8>(best, begin_at);
    uint32_t* bounds = args.super_bounds + item.task * args.max_supers;
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      const int32_t column = begin_at + i;
      const int32_t super = first + column / 2 * 8 + column % 2;
      if (super < task.supers) atomicMax(bounds + super, ordered(best[i]));
    }
  }

  __device__ __forceinline__ void run_bounds(int32_t items) {
    uint32_t high[kWords];
    uint32_t low[kWords];
    float scores[kKeys / 2];
    for (int32_t number = static_cast<int32_t>(blockIdx.x); number < items; number += static_cast<int32_t>(gridDim.x)) {
      begin(number, high);
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        low[i] = negative(high[i]);
        high[i] = positive(high[i]);
      }
      float found[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) found[r] = ids[r] < 0 ? 3e38f : args.found[ids[r]];
      for (int tile = 0; tile < range.tiles; ++tile) {
        wait_tile();
        pin(scores);
        multiply_extremes(scores, high, low, at.stage);
        wgmma_wait<0>();
        pin(scores);
        release(at.stage);
        at.template advance<Config::kStages>();
        keep_bounds(scores, tile, found);
      }
    }
  }
};

}  // namespace ei::kernels::cuda
