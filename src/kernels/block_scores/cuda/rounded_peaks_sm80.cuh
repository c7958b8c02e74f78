// The peaks of a rating (rating_work.cuh) by mma.sync, with queries and keys of 8 bits (rounded_keys.h): the same bits
// as rounded_peaks_sm90a.cu gives, for GPUs without its instructions.
//
// A block of eight warps takes every n-th item, 256 rows and 32 units of keys: 32 rows a warp. Tiles of keys come by
// copies of 16 bytes, one while the one before is multiplied. The best key of a panel lies in the sums of one lane.
// `Tools` are the instructions: a GPU's (rating_sm80.cu), or a test's.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/block_scores/cuda/rating_work.cuh"

namespace ei::kernels::cuda {

inline constexpr int kTileWarps = 8;
inline constexpr int kTileThreads = 32 * kTileWarps;

template <int kHeadDim, class Tools>
struct RoundedPeaks {
  static constexpr int kDim = kHeadDim;
  static constexpr int kGroupBytes = KvLayout{kDim, 1}.half_bytes();  // eight rows
  static constexpr int kUnitBytes = kUnitPanels * kGroupBytes;
  static constexpr int kUnits = kDim == 256 ? 1 : 2;  // of a tile
  static constexpr int kItemUnits = kSplitPanels / kUnitPanels;
  static constexpr int kSteps = kDim / 32;
  static constexpr int kRowTiles = 2;  // of 16 rows
  static constexpr int kWarpRows = 16 * kRowTiles;
  static_assert(kWarpRows * kTileWarps == kRoundedRows);
  static constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: its bits and an integer's, added, are the float of both
  static constexpr int32_t kMagicBits = 0x4B400000;

  struct Shared {
    alignas(128) uint8_t codes[2][kUnits * kUnitBytes];
    int64_t units[kItemUnits];  // where they are among all
  };
  // Of a thread's rows m * 16 + lane / 4 + r * 8 among its warp's.
  struct Rows {
    uint32_t q[kRowTiles][4 * kSteps];
    float scale[kRowTiles][2];  // of an integer, but for the panel's
    float found[kRowTiles][2];
    float sum[kRowTiles][2];
  };

  const RatingArgs& args;
  const RatingTables tables;
  Shared& shared;
  RatingItem item{};
  RatingTask task{};
  int32_t units = 0;

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x % 32); }
  // The first of the warp's rows among those of the task that rate.
  __device__ __forceinline__ int32_t first_row() const {
    return item.row + static_cast<int32_t>(threadIdx.x / 32) * kWarpRows;
  }
  __device__ __forceinline__ int32_t row_of(int m, int r) const { return first_row() + m * 16 + lane() / 4 + r * 8; }
  __device__ __forceinline__ int64_t place_of(int m, int r) const {
    return int64_t{item.task} * args.max_rated + row_of(m, r);
  }

  __device__ __forceinline__ void fetch(int32_t first, int into) const {
    constexpr int kPieces = kUnitBytes / 16;
    const auto* codes = static_cast<const uint8_t*>(args.params.rounded.codes);
    for (auto i = static_cast<int32_t>(threadIdx.x); i < kUnits * kPieces; i += kTileThreads) {
      const int32_t unit = first + i / kPieces;
      const bool there = unit < units;
      Tools::copy(&shared.codes[into][i * 16],
                  codes + shared.units[there ? unit : first] * kUnitBytes + i % kPieces * 16, there);
    }
    Tools::commit();
  }

  // Elements `first` and the next three of a query: of one that speaks for itself, or number `id` of the others.
  __device__ __forceinline__ void load_four(const float* own, int64_t id, int first, float (&to)[4]) const {
    if (own != nullptr) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const float2 pair = *reinterpret_cast<const float2*>(own + first + i);
        to[i] = pair.x;
        to[i + 1] = pair.y;
      }
      return;
    }
    const uint2 words = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(args.queries) + id * kDim + first);
    const uint32_t pairs[2] = {words.x, words.y};
    const bool half = args.params.pages.shape.key_type == DType::kF16;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t pair = pairs[i / 2];
      const float2 both = half ? __half22float2(*reinterpret_cast<const __half2*>(&pair))
                               : __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
      to[i] = both.x;
      to[i + 1] = both.y;
    }
  }

  // Row r of the 16 of number m: rounded, and what follows from it.
  __device__ __forceinline__ void load_row(Rows& rows, int m, int r) const {
    const int32_t place = row_of(m, r);
    const int64_t base = int64_t{item.task} * args.max_rows;
    const int32_t in_task = place < task.rows ? rating_row(args, task, item.task, place) : 0;
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
    rows.scale[m][r] = most * (args.scale / 127.0f);
    rows.found[m][r] = args.found[base + in_task];
    rows.sum[m][r] = 0;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      uint32_t word = 0;
#pragma unroll
      for (int e = 0; e < 4; ++e) word |= (__float_as_uint(fmaf(values[i][e], inverse, kMagic)) & 0xffu) << (e * 8);
      rows.q[m][i / 2 * 4 + i % 2 * 2 + r] = word;
    }
  }

  // Rows times the 32 keys of four groups, which make one panel for each lane of four.
  __device__ __forceinline__ void multiply(int32_t (&sums)[kRowTiles][16], const Rows& rows,
                                           const uint8_t* groups) const {
    constexpr KvLayout kLayout{kDim, 1};
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 16; ++i) sums[m][i] = 0;
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int group = 0; group < 4; ++group) {
        const uint8_t* from = groups + group * kGroupBytes + lane() % 4 * 4;
        const uint32_t low = *reinterpret_cast<const uint32_t*>(from + kLayout.piece_offset(lane() / 4, 2 * step));
        const uint32_t high = *reinterpret_cast<const uint32_t*>(from + kLayout.piece_offset(lane() / 4, 2 * step + 1));
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) Tools::multiply(sums[m] + 4 * group, rows.q[m] + 4 * step, low, high);
      }
    }
  }

  // The share of the panel whose keys' products with row r are `sums`.
  static __device__ __forceinline__ float share_of(const int32_t (&sums)[16], int r, float step, float found) {
    int32_t best = sums[2 * r];
#pragma unroll
    for (int group = 0; group < 4; ++group) {
      best = best > sums[4 * group + 2 * r] ? best : sums[4 * group + 2 * r];
      best = best > sums[4 * group + 2 * r + 1] ? best : sums[4 * group + 2 * r + 1];
    }
    const float value =
        fmaf(__uint_as_float(static_cast<uint32_t>(kMagicBits + best)), step, fmaf(-kMagic, step, -found));
    return fminf(fmaxf(value, -6e4f), 120.0f);
  }

  // Peaks of a lane's two panels, the first of them `panel`, under row r of the 16 of number m.
  __device__ __forceinline__ void keep(Rows& rows, int m, int r, int32_t panel, const float (&share)[2]) const {
    const bool there = row_of(m, r) < task.rows;
    uint16_t* to = args.peaks + place_of(m, r) * args.max_blocks;
    if (args.parts == 1) {
      if (panel > 0) rows.sum[m][r] += Tools::exp2(share[0]);
      rows.sum[m][r] += Tools::exp2(share[1]);
      const uint32_t low = __half_as_ushort(__float2half_rn(share[0]));
      const uint32_t high = __half_as_ushort(__float2half_rn(share[1]));
      if (there) *reinterpret_cast<uint32_t*>(to + panel) = low | high << 16;
      return;
    }
    float best = fmaxf(share[0], share[1]);
    if (args.parts == 4) best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
    if (args.parts == 4 && lane() % 2 != 0) return;
    const int32_t block = panel >> args.parts / 2;
    if (block > 0) rows.sum[m][r] += Tools::exp2(best);
    if (there) to[block] = __half_as_ushort(__float2half_rn(best));
  }

  // Unit `number` of the item, whose codes lie at `codes`.
  __device__ __forceinline__ void rate_unit(Rows& rows, int32_t number, const uint8_t* codes) const {
    const int column = lane() % 4;
    const float2 steps =
        *reinterpret_cast<const float2*>(args.params.rounded.scales + shared.units[number] * kUnitPanels + 2 * column);
    float shares[kRowTiles][2][2];
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      int32_t sums[kRowTiles][16];
      multiply(sums, rows, codes + 4 * p * kGroupBytes);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int r = 0; r < 2; ++r)
          shares[m][r][p] = share_of(sums[m], r, rows.scale[m][r] * (p == 0 ? steps.x : steps.y), rows.found[m][r]);
      }
    }
    const int32_t panel = (item.split * kItemUnits + number) * kUnitPanels + 2 * column;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) keep(rows, m, r, panel, shares[m][r]);
    }
  }

  __device__ __forceinline__ void write_sums(const Rows& rows) const {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float sum = rows.sum[m][r];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        if (lane() % 4 == 0 && row_of(m, r) < task.rows)
          args.parts_sum[place_of(m, r) * args.max_splits + item.split] = sum;
      }
    }
  }

  __device__ __forceinline__ void begin(int32_t number) {
    item = find_item(args, tables, Products::kPeaks, number);
    task = tables.tasks[item.task];
    const int32_t left = task.blocks * args.parts / kUnitPanels - item.split * kItemUnits;
    units = left < kItemUnits ? left : kItemUnits;
    const auto own = static_cast<int32_t>(threadIdx.x);
    if (own < units) {
      int64_t unit = item.split * kItemUnits + own;  // of the kv_head; a super-block where some are candidates
      if (task.candidates >= 0) {
        const int64_t listed = task.candidates;
        unit = unit < listed ? args.super_list[item.task * args.max_supers + unit] : task.supers + unit - listed;
      }
      shared.units[own] = task.kv_head * args.params.rounded.units + unit;
    }
    __syncthreads();
  }

  __device__ __forceinline__ void run() {
    const int32_t items = tables.first[args.num_tasks];
    Rows rows;
    for (auto number = static_cast<int32_t>(blockIdx.x); number < items; number += static_cast<int32_t>(gridDim.x)) {
      begin(number);
      fetch(0, 0);
      const bool any = first_row() < task.rows;  // of the warp
      if (any) {
#pragma unroll
        for (int i = 0; i < 2 * kRowTiles; ++i) load_row(rows, i / 2, i % 2);
      }
      int at = 0;
      for (int32_t first = 0; first < units; first += kUnits, at ^= 1) {
        if (first + kUnits < units) {
          fetch(first + kUnits, at ^ 1);
          Tools::template wait<1>();
        } else {
          Tools::template wait<0>();
        }
        __syncthreads();
#pragma unroll
        for (int u = 0; u < kUnits; ++u)
          if (any && first + u < units) rate_unit(rows, first + u, &shared.codes[at][u * kUnitBytes]);
        __syncthreads();  // before the next but one tile comes
      }
      if (any) write_sums(rows);
    }
  }
};

}  // namespace ei::kernels::cuda
