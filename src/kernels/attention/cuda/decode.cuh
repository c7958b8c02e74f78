// Decoding attention: a few rows against long caches, bound by memory. Every warp has a pipeline of its own: it brings
// 16 keys of each tile, multiplies them by mma.sync and keeps its own softmax; the warps of a CTA are put together at
// the end of a line, the CTAs of a line by whoever is last. Copies are asynchronous ones of 16 bytes, on Hopper too:
// bulk copies were no faster there (labs/cuda). Of a cache in fp8 codes are copied (decode_codes.cuh).
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/decode_codes.cuh"
#include "kernels/attention/cuda/decode_work.cuh"
#include "kernels/attention/cuda/mma.cuh"
#include "kernels/attention/cuda/rows.cuh"

namespace ei::kernels::cuda {

template <int kHeadDim, typename T, bool kCodes>
struct Decode {
  static constexpr int kDim = kHeadDim;
  static constexpr KvLayout kLayout{kDim, 2};
  static constexpr int kBlockBytes = kLayout.block_bytes();
  static constexpr int kHalfBytes = kLayout.half_bytes();
  static constexpr int kWarps = kDim == 256 ? 2 : 4;  // two such CTAs fit on an SM
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kTileKeys = 16 * kWarps;
  static constexpr int kBroughtBytes = kCodes ? Fp8Layout{kDim}.block_bytes() : kBlockBytes;  // of a block
  static constexpr int kStageBytes = 2 * kBroughtBytes;                                       // of one warp
  static constexpr int kStages = kCodes ? 4 : 2;  // about as many bytes on their way
  static constexpr int kWarpBytes = kStages * kStageBytes;
  static constexpr int kPartFloats = kLineRows * (kDim + 2);
  static constexpr int kDynamicBytes = kWarps * kWarpBytes;
  static_assert(kWarps / 2 * kPartFloats * 4 <= kDynamicBytes);

  struct Shared {
    bool last;
  };

  const DecodeArgs& args;
  Shared& shared;
  const uint32_t tiles;  // this warp's stages
  float* const merging;  // [kWarps / 2][kPartFloats], where the stages are, which are empty then
  DecodeLine line{};
  DeviceKvHead head{};
  int stage = 0;  // of the tile that is consumed next

  __device__ __forceinline__ int lane() const { return threadIdx.x % 32; }
  __device__ __forceinline__ int warp() const { return threadIdx.x / 32; }
  __device__ __forceinline__ int32_t first_slot(int tile) const { return tile * kTileKeys + warp() * 16; }

  __device__ __forceinline__ const uint8_t* block_address(int32_t block) const {
    const int32_t page = block / args.page_blocks;
    return static_cast<const uint8_t*>(head.pages[page]) + int64_t{block - page * args.page_blocks} * kBroughtBytes;
  }

  static __device__ __forceinline__ int placed(int offset) {
    if constexpr (kCodes) return CodeProducts<kDim>::place_of(offset);
    return offset;
  }

  // Starts copying this warp's 16 keys of `tile` into stage `to_stage`; blocks wholly behind the length are left out.
  __device__ __forceinline__ void bring(int tile, int to_stage) {
    const int32_t slot = first_slot(tile);
    const uint32_t to = tiles + to_stage * kStageBytes;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int32_t block = slot / kBlockKeys + i;
      if (block * kBlockKeys < head.length) {
        const uint8_t* from = block_address(block);
        for (int offset = lane() * 16; offset < kBroughtBytes; offset += 32 * 16)
          copy_piece(to + i * kBroughtBytes + placed(offset), from + offset, true);
      }
    }
    commit_copies();
  }

  __device__ __forceinline__ void await(bool another_started) {
    if (another_started) {
      wait_copies<kStages - 1>();
    } else {
      wait_copies<0>();
    }
    __syncwarp();
  }

  // Values of slots behind the length become zero: their weights are, but what lies there may be no number.
  __device__ __forceinline__ void clear_values(int32_t slot) {
    const uint32_t values = tiles + stage * kStageBytes + kHalfBytes;
    for (int offset = lane() * 16; offset < kHalfBytes; offset += 32 * 16) {
      const int row = offset % kLayout.atom_bytes() / kLayout.atom_row_bytes();
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (slot + i * kBlockKeys + row < head.length) continue;
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(values + i * kBlockBytes + offset), "r"(0)
                     : "memory");
      }
    }
    __syncwarp();
  }

  __device__ __forceinline__ int64_t row_index(int32_t row, int64_t stride) const {
    if (row >= args.tokens * args.group) return -1;
    const int32_t token = row / args.group;
    return token * stride + static_cast<int64_t>(line.kv_head * args.group + row - token * args.group) * kDim;
  }

  __device__ __forceinline__ void load_queries(uint32_t (&q)[kDim / 4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t index = row_index(line.row + lane() / 4 + 8 * half, args.q_stride);
#pragma unroll
      for (int pair = 0; pair < kDim / 8; ++pair) {
        const int column = kCodes ? CodeProducts<kDim>::query_column(pair, lane()) : pair * 8 + lane() % 4 * 2;
        q[pair * 2 + half] = index < 0 ? 0u : load_query_pair<T>(args.q, args.q_type, index + column);
      }
    }
  }

  // Tiles [begin, end) of the line for this warp.
  __device__ __forceinline__ void attend(int begin, int end, float (&out)[kDim / 2], RowState& state) {
    for (int i = 0; i < kStages && begin + i < end; ++i) bring(begin + i, (stage + i) % kStages);
    uint32_t q[kDim / 4];
    load_queries(q);
    int32_t from[2];
    int32_t until[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int32_t row = line.row + lane() / 4 + 8 * r;
      const int32_t token = row / args.group < args.tokens ? row / args.group : args.tokens - 1;
      from[r] = seen_begin(args, head, token);
      until[r] = seen_end(args, head, token);
    }
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) out[i] = 0;
    for (int tile = begin; tile < end; ++tile) {
      await(tile + kStages - 1 < end);
      const int32_t slot = first_slot(tile);
      float scores[8];
      const uint32_t blocks = tiles + stage * kStageBytes;
      if constexpr (kCodes) {
        CodeProducts<kDim>::keys(scores, q, blocks);
      } else {
        if (slot + 16 > head.length) clear_values(slot);
        BlockProducts<kDim, T>::template keys<2>(scores, q, blocks);
      }
      if (args.softcap > 0) cap_scores(scores, args.scale, args.softcap);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int32_t key = slot + i / 4 * 8 + lane() % 4 * 2 + i % 2;
        if (key < from[i % 4 / 2] || key >= until[i % 4 / 2]) scores[i] = -INFINITY;
      }
      float factor[2];
      if (softmax_step<true>(scores, args.softcap > 0 ? 1.0f : args.scale, state, factor))
        scale_rows(out, factor[0], factor[1]);
      uint32_t weights[4];
      pack_weights<T>(scores, weights);
      if constexpr (kCodes) {
        CodeProducts<kDim>::values(out, weights, blocks, head.length - slot);
      } else {
        BlockProducts<kDim, T>::template values<2>(out, weights, blocks);
      }
      __syncwarp();
      if (tile + kStages < end) bring(tile + kStages, stage);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      state.sum[r] += __shfl_xor_sync(~0u, state.sum[r], 1);
      state.sum[r] += __shfl_xor_sync(~0u, state.sum[r], 2);
    }
  }

  // A part: [16][kDim] sums, then 16 bases, then 16 sums of weights.
  __device__ __forceinline__ void write_part(float* part, const float (&out)[kDim / 2], const RowState& state) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = lane() / 4 + 8 * r;
      if (line.row + row >= args.tokens * args.group) continue;
      write_row_as<kDim>(part + row * kDim, out, r, 1.0f);
      if (lane() % 4 == 0) {
        part[kLineRows * kDim + row] = state.base[r];
        part[kLineRows * (kDim + 1) + row] = state.sum[r];
      }
    }
  }

  __device__ __forceinline__ void add_part(const float* part, float (&out)[kDim / 2], RowState& state) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = lane() / 4 + 8 * r;
      if (line.row + row >= args.tokens * args.group) continue;
      const float base = part[kLineRows * kDim + row];
      const float best = fmaxf(base, state.base[r]);
      const float shift = best == -INFINITY ? 0.0f : best;
      const float theirs = exp2_fast(base - shift);
      const float mine = exp2_fast(state.base[r] - shift);
      state.base[r] = best;
      state.sum[r] = state.sum[r] * mine + part[kLineRows * (kDim + 1) + row] * theirs;
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
        const float2 pair = *reinterpret_cast<const float2*>(part + row * kDim + i * 8 + lane() % 4 * 2);
        out[4 * i + 2 * r] = out[4 * i + 2 * r] * mine + pair.x * theirs;
        out[4 * i + 2 * r + 1] = out[4 * i + 2 * r + 1] * mine + pair.y * theirs;
      }
    }
  }

  // Warp 0 gets what all warps have.
  __device__ __forceinline__ void merge_warps(float (&out)[kDim / 2], RowState& state) const {
#pragma unroll
    for (int half = kWarps / 2; half > 0; half /= 2) {
      __syncthreads();
      if (warp() >= half && warp() < 2 * half) write_part(merging + (warp() - half) * kPartFloats, out, state);
      __syncthreads();
      if (warp() < half) add_part(merging + warp() * kPartFloats, out, state);
    }
  }

  // The parts of a line, one behind the other, become its output: a warp a row, four columns a lane and step.
  __device__ __forceinline__ void finish_line(const float* first, int parts) const {
    const int stride = kPartFloats;
    for (int row = warp(); row < kLineRows; row += kWarps) {
      const int64_t index = row_index(line.row + row, args.out_stride);
      if (index < 0) continue;
      float best = -INFINITY;
      for (int part = lane(); part < parts; part += 32)
        best = fmaxf(best, __ldcg(first + int64_t{part} * stride + kLineRows * kDim + row));
#pragma unroll
      for (int i = 16; i > 0; i /= 2) best = fmaxf(best, __shfl_xor_sync(~0u, best, i));
      const float shift = best == -INFINITY ? 0.0f : best;
      float sum = 0;
      float values[kDim / 32];
#pragma unroll
      for (int i = 0; i < kDim / 32; ++i) values[i] = 0;
#pragma unroll 4
      for (int part = 0; part < parts; ++part) {
        const float* from = first + int64_t{part} * stride;
        const float factor = exp2_fast(__ldcg(from + kLineRows * kDim + row) - shift);
        sum += factor * __ldcg(from + kLineRows * (kDim + 1) + row);
#pragma unroll
        for (int i = 0; i < kDim / 32; ++i) values[i] += factor * __ldcg(from + row * kDim + i * 32 + lane());
      }
      const float inverse = sum > 0 ? 1.0f / sum : 0.0f;
#pragma unroll
      for (int i = 0; i < kDim / 32; ++i) {
        const int column = kCodes ? CodeProducts<kDim>::sum_column(i * 32 + lane()) : i * 32 + lane();
        store_one(index + column, values[i] * inverse);
      }
      if (args.log_sum != nullptr && lane() == 0) {
        const int64_t heads = static_cast<int64_t>(args.kv_heads) * args.group;
        args.log_sum[row_index(line.row + row, heads * kDim) / kDim] = log_of_sum(best, sum);
      }
    }
  }

  __device__ __forceinline__ void store_one(int64_t index, float value) const {
    if (args.out_type == DType::kBF16) {
      static_cast<__nv_bfloat16*>(args.out)[index] = __float2bfloat16(value);
    } else if (args.out_type == DType::kF16) {
      static_cast<__half*>(args.out)[index] = __float2half(value);
    } else {
      static_cast<float*>(args.out)[index] = value;
    }
  }

  // This CTA's tiles [from, until) of line `number`, which has tiles [before, behind) of all.
  __device__ __forceinline__ void attend_line(int32_t number, int32_t before, int32_t from, int32_t until,
                                              int32_t total, int32_t ctas) {
    const auto cta = static_cast<int32_t>(blockIdx.x);
    head = args.heads[line.kv_head];
    const int32_t first_owner = share_owner(total, before, ctas);
    const int32_t parts = share_owner(total, before + line.num_tiles - 1, ctas) - first_owner + 1;
    float* const line_parts = args.parts + int64_t{first_owner + number} * kPartFloats;
    {
      float out[kDim / 2];
      RowState state;
      attend(line.first_tile + from - before, line.first_tile + until - before, out, state);
      merge_warps(out, state);
      if (warp() == 0) write_part(line_parts + int64_t{cta - first_owner} * kPartFloats, out, state);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) shared.last = atomicAdd(args.arrived + number, 1u) + 1 == static_cast<uint32_t>(parts);
    __syncthreads();
    if (!shared.last) return;
    __threadfence();
    finish_line(line_parts, parts);
    if (threadIdx.x == 0) args.arrived[number] = 0;
  }

  // Every warp looks at 32 lines at a time, a lane each: first to count all tiles, then to find this CTA's.
  __device__ void run() {
    const int32_t lines = args.kv_heads * args.lines_per_head;
    int32_t total = 0;
    for (int32_t first = 0; first < lines; first += 32) {
      const int32_t number = first + lane();
      total += __reduce_add_sync(~0u, number < lines ? find_line<kTileKeys>(args, number).num_tiles : 0);
    }
    const int32_t ctas = total < static_cast<int32_t>(gridDim.x) ? total : static_cast<int32_t>(gridDim.x);
    if (static_cast<int32_t>(blockIdx.x) >= ctas) return;
    const int32_t begin = share_begin(total, blockIdx.x, ctas);
    const int32_t end = share_begin(total, blockIdx.x + 1, ctas);
    int32_t counted = 0;
    for (int32_t first = 0; first < lines && counted < end; first += 32) {
      DecodeLine mine{};
      if (first + lane() < lines) mine = find_line<kTileKeys>(args, first + lane());
      int32_t behind = mine.num_tiles;
      for (int step = 1; step < 32; step *= 2) {
        const int32_t other = __shfl_up_sync(~0u, behind, step);
        if (lane() >= step) behind += other;
      }
      behind += counted;
      const int32_t before = behind - mine.num_tiles;
      counted = __shfl_sync(~0u, behind, 31);
      uint32_t wanted = __ballot_sync(~0u, mine.num_tiles > 0 && before < end && behind > begin);
      while (wanted != 0) {
        const int chosen = __ffs(static_cast<int>(wanted)) - 1;
        wanted &= wanted - 1;
        line.kv_head = __shfl_sync(~0u, mine.kv_head, chosen);
        line.row = __shfl_sync(~0u, mine.row, chosen);
        line.first_tile = __shfl_sync(~0u, mine.first_tile, chosen);
        line.num_tiles = __shfl_sync(~0u, mine.num_tiles, chosen);
        const int32_t line_begin = __shfl_sync(~0u, before, chosen);
        const int32_t line_end = __shfl_sync(~0u, behind, chosen);
        attend_line(first + chosen, line_begin, line_begin > begin ? line_begin : begin,
                    line_end < end ? line_end : end, total, ctas);
      }
    }
  }
};

template <int kDim, typename T, bool kCodes>
__global__ void __launch_bounds__(Decode<kDim, T, kCodes>::kThreads, 1)
    decode_attention(const __grid_constant__ DecodeArgs args) {
  using Kernel = Decode<kDim, T, kCodes>;
  extern __shared__ __align__(1024) uint8_t decode_tiles[];
  __shared__ typename Kernel::Shared shared;
  const auto tiles = static_cast<uint32_t>(__cvta_generic_to_shared(decode_tiles));
  const uint32_t own = threadIdx.x / 32 * Kernel::kWarpBytes;
  Kernel{args, shared, tiles + own, reinterpret_cast<float*>(decode_tiles)}.run();
}

}  // namespace ei::kernels::cuda
