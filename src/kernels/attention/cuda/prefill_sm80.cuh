// Prefill attention for compute capability 8.0 and later: mma.sync and asynchronous copies, the same work items and the
// same layout as Hopper's kernel. Eight warps of 16 rows; two stages of keys.
#pragma once

#include <climits>
#include <cstdint>

#include "kernels/attention/cuda/mma.cuh"
#include "kernels/attention/cuda/prefill_work.cuh"
#include "kernels/attention/cuda/rows.cuh"

namespace ei::kernels::cuda {

inline constexpr int kPortableThreads = 256;

template <int kHeadDim, typename T>
struct PortablePrefill {
  static constexpr int kDim = kHeadDim;
  static constexpr int kBlocks = kDim == 256 ? 4 : 8;  // 8-key blocks of a tile
  static constexpr int kWarpsPerBlock = 8 / kBlocks;   // that bring one block together
  static constexpr KvLayout kLayout{kDim, 2};
  static constexpr int kBlockBytes = kLayout.block_bytes();
  static constexpr int kStageBytes = kBlocks * kBlockBytes;
  static constexpr int kDynamicBytes = 2 * kStageBytes;

  struct Shared {
    int32_t item;
    int32_t slots[2][kBlocks];  // first slot of every block of a stage; -1: none
  };

  const PrefillArgs& args;
  Shared& shared;
  const uint32_t tiles;
  PrefillItem item{};
  PrefillKeys keys{};
  DeviceKvHead head{};

  __device__ __forceinline__ int lane() const { return threadIdx.x % 32; }
  __device__ __forceinline__ int warp() const { return threadIdx.x / 32; }

  __device__ __forceinline__ int64_t row_index(int in_item, int64_t stride) const {
    const int32_t at_row = item.row + in_item;
    if (at_row >= item.rows) return -1;
    const int32_t token = at_row / args.group;
    const int32_t in_group = at_row - token * args.group;
    return (item.first_token + token) * stride + static_cast<int64_t>(item.kv_head * args.group + in_group) * kDim;
  }

  // Starts the copies of a tile; values behind the length, and blocks that are none, become zeros.
  __device__ __forceinline__ void bring(int tile) {
    const int block = warp() / kWarpsPerBlock;
    const int32_t number = tile * kBlocks + block;
    const bool any = number < keys.num_blocks;
    const int32_t index = any ? find_block(args, keys, number) : 0;
    const int32_t page = index / args.page_blocks;
    const auto from = static_cast<const uint8_t*>(any ? head.pages[page] : args.q) +
                      (any ? (index - page * args.page_blocks) * int64_t{kBlockBytes} : 0);
    if (lane() == 0) shared.slots[tile % 2][block] = any ? index * kBlockKeys : -1;
    const int rows = any ? head.length - index * kBlockKeys : 0;
    const uint32_t to = tiles + tile % 2 * kStageBytes + block * kBlockBytes;
    for (int offset = (threadIdx.x % (32 * kWarpsPerBlock)) * 16; offset < kBlockBytes;
         offset += 32 * kWarpsPerBlock * 16) {
      const int row = offset % kLayout.half_bytes() % kLayout.atom_bytes() / kLayout.atom_row_bytes();
      copy_piece(to + offset, any ? from + offset : from, row < rows);
    }
    commit_copies();
  }

  __device__ __forceinline__ void mask_scores(float (&scores)[4 * kBlocks], int stage, const int32_t (&positions)[2]) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int32_t slot = shared.slots[stage][block];
      if (slot >= 0 && slot + kBlockKeys <= keys.masked_from && slot >= keys.window_from) continue;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t key_slot = slot + lane() % 4 * 2 + i;
        const int32_t key = slot >= 0 && key_slot < head.length ? position_of(head, key_slot) : INT_MAX;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int32_t oldest = args.window > 0 ? positions[r] - args.window : INT_MIN;
          if (key > positions[r] || key <= oldest) scores[4 * block + 2 * r + i] = -INFINITY;
        }
      }
    }
  }

  __device__ __forceinline__ void load_queries(uint32_t (&q)[kDim / 4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t index = row_index(warp() * 16 + lane() / 4 + 8 * half, args.q_stride);
#pragma unroll
      for (int pair = 0; pair < kDim / 8; ++pair) {
        q[pair * 2 + half] =
            index < 0 ? 0u : load_query_pair<T>(args.q, args.q_type, index + pair * 8 + lane() % 4 * 2);
      }
    }
  }

  __device__ __forceinline__ void attend() {
    uint32_t q[kDim / 4];
    float out[kDim / 2];
    RowState state;
    load_queries(q);
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) out[i] = 0;
    const int32_t begin = args.first_position + item.first_token;
    const int row = item.row + warp() * 16 + lane() / 4;
    const int32_t positions[2] = {begin + row / args.group, begin + (row + 8) / args.group};
    bring(0);
    for (int tile = 0; tile < item.key_tiles; ++tile) {
      if (tile + 1 < item.key_tiles) {
        bring(tile + 1);
        wait_copies<1>();
      } else {
        wait_copies<0>();
      }
      __syncthreads();
      const uint32_t stage = tiles + tile % 2 * kStageBytes;
      float scores[4 * kBlocks];
      BlockProducts<kDim, T>::template keys<kBlocks>(scores, q, stage);
      if (args.softcap > 0) cap_scores(scores, args.scale, args.softcap);
      mask_scores(scores, tile % 2, positions);
      float factor[2];
      if (softmax_step<true>(scores, args.softcap > 0 ? 1.0f : args.scale, state, factor))
        scale_rows(out, factor[0], factor[1]);
      uint32_t weights[2 * kBlocks];
      pack_weights<T>(scores, weights);
      BlockProducts<kDim, T>::template values<kBlocks>(out, weights, stage);
      __syncthreads();
    }
    write(out, state);
  }

  __device__ __forceinline__ void write(const float (&out)[kDim / 2], const RowState& state) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = state.sum[r];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const int in_item = warp() * 16 + lane() / 4 + 8 * r;
      const int64_t index = row_index(in_item, args.out_stride);
      if (index < 0) continue;
      write_row<kDim>(args.out, args.out_type, index, out, r, sum > 0 ? 1.0f / sum : 0.0f);
      if (args.log_sum != nullptr && lane() % 4 == 0) {
        const int64_t heads = static_cast<int64_t>(args.kv_heads) * args.group;
        args.log_sum[row_index(in_item, heads * kDim) / kDim] = log_of_sum(state.base[r], sum);
      }
    }
  }

  __device__ void run() {
    for (;;) {
      __syncthreads();
      if (threadIdx.x == 0) shared.item = static_cast<int32_t>(atomicAdd(args.next_item, 1u));
      __syncthreads();
      const int32_t number = shared.item;
      if (number >= args.items) return;
      int32_t list;
      int32_t own_begin;
      if (!find_item(args, number, item, list, own_begin)) continue;
      head = args.heads[item.kv_head];
      keys = find_keys(args, item, list, own_begin);
      item.key_tiles = keys.num_blocks == 0 ? 1 : (keys.num_blocks + kBlocks - 1) / kBlocks;
      attend();
    }
  }
};

template <int kDim, typename T>
__global__ void __launch_bounds__(kPortableThreads, 1) prefill_portable(const __grid_constant__ PrefillArgs args) {
  extern __shared__ __align__(1024) uint8_t portable_tiles[];
  __shared__ typename PortablePrefill<kDim, T>::Shared shared;
  const auto tiles = static_cast<uint32_t>(__cvta_generic_to_shared(portable_tiles));
  PortablePrefill<kDim, T>{args, shared, tiles}.run();
}

}  // namespace ei::kernels::cuda
