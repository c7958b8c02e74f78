// The products of a rating (rating_work.cuh) by mma.sync in the type of the cache: rows of queries with the keys of
// their own segment, or with the extremes of super-blocks. Peaks are rounded_peaks_sm80.cuh's.
//
// A block of eight warps takes every n-th item of 128 rows: 16 rows a warp. `Tools` are the instructions: a GPU's
// (rating_sm80.cu), or a test's.
#pragma once

#include "kernels/block_scores/cuda/rounded_peaks_sm80.cuh"
#include "kernels/cuda/elements.cuh"

namespace ei::kernels::cuda {

template <int kHeadDim, typename T, Products kKind, class Tools>
struct RatingTiles {
  static constexpr int kDim = kHeadDim;
  static constexpr bool kBounds = kKind == Products::kBounds;
  static constexpr int kHalfBytes = KvLayout{kDim, 2}.half_bytes();
  // Extremes lie as keys and values do; of keys the first half of a block is read.
  static constexpr int kPanelBytes = kBounds ? 2 * kHalfBytes : kHalfBytes;
  static constexpr int kMostBytes = 24 * 1024;  // of a tile, two of which lie in 48 KiB
  static constexpr int kPanels = kMostBytes / kPanelBytes >= 8 ? 8 : kMostBytes / kPanelBytes >= 4 ? 4 : 2;
  static constexpr int kWords = kDim / 4;
  static_assert(kPanels * kPanelBytes <= kMostBytes && kTileWarps * 16 == kRatingRows);
  static_assert(kBounds || kPanels >= 4);  // the most of a block

  struct Shared {
    alignas(128) uint8_t keys[2][kPanels * kPanelBytes];
  };
  // Panels `first` of the range and how many; of own segments one tile more, the first block, comes last.
  struct Range {
    int32_t first;
    int32_t panels;
    int32_t tiles;
  };

  const RatingArgs& args;
  const RatingTables tables;
  Shared& shared;
  RatingItem item{};
  RatingTask task{};
  Range range{};
  int64_t ids[2] = {-1, -1};  // of a thread's two rows among all; -1: none

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x % 32); }

  __device__ __forceinline__ Range range_of() const {
    if constexpr (kBounds) {
      const int32_t panels = (task.supers + kPanelKeys - 1) / kPanelKeys;
      return {0, panels, (panels + kPanels - 1) / kPanels};
    } else {
      const int32_t last = item.row + kRatingRows < task.rows ? item.row + kRatingRows - 1 : task.rows - 1;
      const int32_t token = task.chosen ? task.first_token + task.tokens - 1 : token_of(args, task, last);
      const int32_t keys = args.params.first_position + token + 1 - task.own_begin;
      const int32_t panels = (keys + kPanelKeys - 1) / kPanelKeys;
      return {task.own_begin / kPanelKeys, panels, (panels + kPanels - 1) / kPanels + 1};
    }
  }

  // Where panel `i` of a tile lies; null: there is none.
  __device__ __forceinline__ const uint8_t* source(int32_t tile, int32_t i) const {
    const int32_t number = tile * kPanels + i;
    if constexpr (kBounds) {
      if (number >= range.panels) return nullptr;
      const int64_t panel = task.kv_head * (args.params.index_supers / kPanelKeys) + number;
      return static_cast<const uint8_t*>(args.params.index) + panel * kPanelBytes;
    } else {
      const bool sink = tile + 1 == range.tiles;
      if (sink ? i >= args.parts : number >= range.panels) return nullptr;
      const int32_t panel = sink ? i : range.first + number;
      const int32_t page_panels = args.params.pages.shape.slots / kPanelKeys;
      const int32_t page = panel / page_panels;
      return static_cast<const uint8_t*>(args.params.heads[task.kv_head].pages[page]) +
             (panel - page * page_panels) * int64_t{2 * kHalfBytes};
    }
  }

  __device__ __forceinline__ void fetch(int32_t tile, int into) const {
    constexpr int kPieces = kPanelBytes / 16;
    for (auto i = static_cast<int32_t>(threadIdx.x); i < kPanels * kPieces; i += kTileThreads) {
      const uint8_t* from = source(tile, i / kPieces);
      const bool there = from != nullptr;
      // Of no panel nothing is read.
      const void* piece = there ? static_cast<const void*>(from + i % kPieces * 16) : args.tasks;
      Tools::copy(&shared.keys[into][i * 16], piece, there);
    }
    Tools::commit();
  }

  static __device__ __forceinline__ uint32_t pair_of(float low, float high) {
    const T both[2] = {from_float<T>(low), from_float<T>(high)};
    return *reinterpret_cast<const uint32_t*>(both);
  }

  __device__ __forceinline__ void begin(int32_t number, uint32_t (&q)[kWords]) {
    item = find_item(args, tables, kKind, number);
    task = tables.tasks[item.task];
    range = range_of();
    const int64_t base = int64_t{item.task} * args.max_rows;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int32_t place = item.row + static_cast<int32_t>(threadIdx.x / 32) * 16 + lane() / 4 + 8 * r;
      const bool there = place < task.rows;
      const int32_t in_task = there ? rating_row(args, task, item.task, place) : 0;
      ids[r] = there ? base + in_task : -1;
      if (task.query == GroupQuery::kEach) {
        const float* from = own_query(args, task, in_task) + lane() % 4 * 2;
#pragma unroll
        for (int pair = 0; pair < kDim / 8; ++pair) {
          const float2 both = *reinterpret_cast<const float2*>(from + pair * 8);
          q[pair * 2 + r] = there ? pair_of(both.x, both.y) : 0u;
        }
      } else {
        const auto* from =
            reinterpret_cast<const uint32_t*>(static_cast<const T*>(args.queries) + (base + in_task) * kDim) +
            lane() % 4;
#pragma unroll
        for (int pair = 0; pair < kDim / 8; ++pair) q[pair * 2 + r] = there ? from[pair * 4] : 0u;
      }
    }
  }

  // scores[4 p ..] += rows times panel p of the tile at `keys`.
  static __device__ __forceinline__ void multiply(float (&scores)[4 * kPanels], const uint32_t (&q)[kWords],
                                                  const uint8_t* keys) {
    constexpr KvLayout kLayout{kDim, 2};
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        const uint8_t* from = keys + panel * kPanelBytes + lane() % 4 * 4;
        const uint32_t low = *reinterpret_cast<const uint32_t*>(from + kLayout.piece_offset(lane() / 4, 2 * step));
        const uint32_t high = *reinterpret_cast<const uint32_t*>(from + kLayout.piece_offset(lane() / 4, 2 * step + 1));
        Tools::template multiply<T>(scores + 4 * panel, q + 4 * step, low, high);
      }
    }
  }

  // Calls use(tile, keys) for every tile of the item.
  template <typename Use>
  __device__ __forceinline__ void for_tiles(Use use) const {
    fetch(0, 0);
    int at = 0;
    for (int32_t tile = 0; tile < range.tiles; ++tile, at ^= 1) {
      if (tile + 1 < range.tiles) {
        fetch(tile + 1, at ^ 1);
        Tools::template wait<1>();
      } else {
        Tools::template wait<0>();
      }
      __syncthreads();
      use(tile, static_cast<const uint8_t*>(shared.keys[at]));
      __syncthreads();  // before the next but one tile comes
    }
  }

  // What a thread's columns of row r add up to, in powers of two.
  struct Sum {
    float base = -INFINITY;
    float sum = 0;
  };
  __device__ __forceinline__ void add(const float (&scores)[4 * kPanels], int r, Sum& to) const {
    float best = to.base;
#pragma unroll
    for (int i = 0; i < 2 * kPanels; ++i) best = fmaxf(best, scores[i / 2 * 4 + 2 * r + i % 2] * args.scale);
    if (best == -INFINITY) return;
    to.sum *= Tools::exp2(to.base - best);
    to.base = best;
#pragma unroll
    for (int i = 0; i < 2 * kPanels; ++i) to.sum += Tools::exp2(scores[i / 2 * 4 + 2 * r + i % 2] * args.scale - best);
  }
  static __device__ __forceinline__ float best_of_four(float value) {
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
    return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
  }
  __device__ __forceinline__ void write_own(int r, const Sum& own_columns, float sink) const {
    const float base = best_of_four(own_columns.base);
    float sum = own_columns.base == -INFINITY ? 0.0f : own_columns.sum * Tools::exp2(own_columns.base - base);
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    sink = best_of_four(sink) * args.scale;
    if (lane() % 4 != 0 || ids[r] < 0) return;
    const float own = base + log2f(sum);
    const float high = fmaxf(own, sink);
    args.own[ids[r]] = own;
    args.sink[ids[r]] = sink;
    args.found[ids[r]] = high + log2f(exp2f(own - high) + exp2f(sink - high));
  }

  __device__ __forceinline__ int32_t position(int r) const {
    const int64_t in_task = ids[r] < 0 ? 0 : ids[r] - int64_t{item.task} * args.max_rows;
    return args.params.first_position + token_of(args, task, static_cast<int32_t>(in_task));
  }

  __device__ __forceinline__ void run_own(const uint32_t (&q)[kWords]) const {
    const int32_t newest[2] = {position(0), position(1)};
    Sum sums[2];
    for_tiles([&](int32_t tile, const uint8_t* keys) {
      float scores[4 * kPanels] = {};
      multiply(scores, q, keys);
      if (tile + 1 < range.tiles) {
        const int32_t first = (range.first + tile * kPanels) * kPanelKeys + lane() % 4 * 2;
#pragma unroll
        for (int i = 0; i < 4 * kPanels; ++i)
          if (first + i / 4 * 8 + i % 2 > newest[i % 4 / 2]) scores[i] = -INFINITY;
#pragma unroll
        for (int r = 0; r < 2; ++r) add(scores, r, sums[r]);
        return;
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float sink = -INFINITY;
#pragma unroll
        for (int i = 0; i < 2 * kPanels; ++i)
          if (i / 2 < args.parts) sink = fmaxf(sink, scores[i / 2 * 4 + 2 * r + i % 2]);
        write_own(r, sums[r], sink);
      }
    });
  }

  // A super-block's bound is its largest keys times what is positive of a query, and its smallest times the rest.
  __device__ __forceinline__ void run_bounds(const uint32_t (&q)[kWords]) const {
    uint32_t high[kWords];
    uint32_t low[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const uint32_t negative = (q[i] >> 15 & 0x00010001u) * 0xffffu;  // by the signs of both
      high[i] = q[i] & ~negative;
      low[i] = q[i] & negative;
    }
    float found[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) found[r] = ids[r] < 0 ? 3e38f : args.found[ids[r]];
    uint32_t* bounds = args.super_bounds + item.task * args.max_supers;
    for_tiles([&](int32_t tile, const uint8_t* keys) {
      float scores[4 * kPanels] = {};
      multiply(scores, high, keys);
      multiply(scores, low, keys + kHalfBytes);
#pragma unroll
      for (int i = 0; i < 2 * kPanels; ++i) {
        const int32_t super = (tile * kPanels + i / 2) * kPanelKeys + lane() % 4 * 2 + i % 2;
        const float upper = scores[i / 2 * 4 + i % 2] * args.scale - found[0];
        const float under = scores[i / 2 * 4 + 2 + i % 2] * args.scale - found[1];
        float best = super < task.supers ? fmaxf(upper, under) : kNoRating;
        for (int mask = 4; mask < 32; mask *= 2) best = fmaxf(best, __shfl_xor_sync(~0u, best, mask));
        if (lane() < 4 && super < task.supers) atomicMax(bounds + super, ordered(best));
      }
    });
  }

  __device__ __forceinline__ void run() {
    const int32_t items = tables.first[args.num_tasks];
    uint32_t q[kWords];
    for (auto number = static_cast<int32_t>(blockIdx.x); number < items; number += static_cast<int32_t>(gridDim.x)) {
      begin(number, q);
      if constexpr (kBounds) {
        run_bounds(q);
      } else {
        run_own(q);
      }
    }
  }
};

}  // namespace ei::kernels::cuda
