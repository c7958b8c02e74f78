// The warp of prefill_sm90a that takes items, finds their keys and brings them into shared memory, tile by tile.
#pragma once

#include <climits>

#include "kernels/attention/cuda/prefill_sm90a.cuh"

namespace ei::kernels::cuda {

template <class Config>
struct PrefillProducer {
  using Shared = PrefillShared<Config>;
  static constexpr int kTileBlocks = Shared::kTileBlocks;
  static constexpr int kBlockBytes = Shared::kLayout.block_bytes();
  static constexpr int kHalfBytes = Shared::kLayout.half_bytes();

  const PrefillArgs& args;
  Shared& shared;
  const uint32_t tiles;

  PipelineState<Config::kStages> at{};
  PipelineState<kItemSlots> item_at{};

  // A lane's block of a tile: lane i < kTileBlocks has block i.
  struct Source {
    const uint8_t* address;
    int32_t slot;  // first slot; -1: none
  };

  __device__ __forceinline__ Source locate(const PrefillKeys& keys, const void* const* pages, int tile) const {
    const int lane = threadIdx.x;
    const int32_t number = tile * kTileBlocks + lane;
    if (lane >= kTileBlocks || number >= keys.num_blocks) return {nullptr, -1};
    const int32_t block = find_block(args, keys, number);
    const int32_t page = block / args.page_blocks;
    return {static_cast<const uint8_t*>(pages[page]) + (block - page * args.page_blocks) * kBlockBytes,
            block * kBlockKeys};
  }

  // Values of rows that nobody may see become zero: zero weight times what lies in memory might not be zero. The keys
  // of such rows only make scores that are masked. `specials`: lanes whose block is partly or wholly behind the length.
  __device__ __forceinline__ void fill_values(uint32_t specials, const Source& source, int32_t length, uint32_t stage) {
    while (specials != 0) {
      const int block = __ffs(static_cast<int>(specials)) - 1;
      specials &= specials - 1;
      const int32_t slot = __shfl_sync(~0u, source.slot, block);
      const auto address = reinterpret_cast<const uint8_t*>(
          __shfl_sync(~0u, reinterpret_cast<unsigned long long>(source.address), block));
      const int rows = slot < 0 ? 0 : length - slot;
      for (int offset = static_cast<int>(threadIdx.x) * 16; offset < kHalfBytes; offset += 32 * 16) {
        const int row = offset % Shared::kLayout.atom_bytes() / Shared::kLayout.atom_row_bytes();
        uint4 piece = make_uint4(0, 0, 0, 0);
        if (row < rows) piece = *reinterpret_cast<const uint4*>(address + kHalfBytes + offset);
        const uint32_t to = stage + block * kBlockBytes + kHalfBytes + offset;
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(piece.x), "r"(piece.y), "r"(piece.z),
                     "r"(piece.w)
                     : "memory");
      }
    }
    async_proxy_fence();
  }

  __device__ __forceinline__ void write_positions(const DeviceKvHead* head, const Source& source, int32_t length) {
    const int lane = threadIdx.x;
    if (lane >= kTileBlocks) return;
    int2* to = shared.positions[at.stage] + lane * (kBlockKeys / 2);
#pragma unroll
    for (int pair = 0; pair < kBlockKeys / 2; ++pair) {
      int2 positions = make_int2(INT_MAX, INT_MAX);
      const int32_t slot = source.slot + 2 * pair;
      if (source.slot >= 0 && slot < length) positions.x = position_of(*head, slot);
      if (source.slot >= 0 && slot + 1 < length) positions.y = position_of(*head, slot + 1);
      to[pair] = positions;
    }
  }

  // Brings one tile. Runs of blocks that lie side by side are one copy.
  __device__ __forceinline__ void bring(const PrefillKeys& keys, const DeviceKvHead* head, int32_t length,
                                        const Source& source) {
    const int lane = threadIdx.x;
    barrier_wait(&shared.empty[at.stage], at.parity ^ 1);
    const uint32_t stage = tiles + at.stage * Shared::kStageBytes;
    const bool mine = lane < kTileBlocks;
    const bool whole = source.slot >= 0 && source.slot + kBlockKeys <= length;
    const uint32_t specials = __ballot_sync(~0u, mine && !whole);
    const bool masked = __any_sync(
        ~0u, mine && (!whole || source.slot + kBlockKeys > keys.masked_from || source.slot < keys.window_from));
    if (masked) write_positions(head, source, length);
    if (specials != 0) fill_values(specials, source, length, stage);
    const uint32_t partial = __ballot_sync(~0u, mine && !whole && source.slot >= 0);
    const unsigned long long address = whole ? reinterpret_cast<unsigned long long>(source.address) : 0;
    const unsigned long long before = __shfl_up_sync(~0u, address, 1);
    const bool leads = whole && (lane == 0 || before + kBlockBytes != address);
    const uint32_t stops = __ballot_sync(~0u, leads || !whole);
    __syncwarp();
    if (lane == 0) {
      shared.masked[at.stage] = masked ? 1 : 0;
      barrier_expect(&shared.full[at.stage],
                     (kTileBlocks - __popc(specials)) * kBlockBytes + __popc(partial) * kHalfBytes);
    } else if (lane < kLanesArriving) {
      barrier_arrive(&shared.full[at.stage]);
    }
    __syncwarp();
    const uint32_t to = stage + lane * kBlockBytes;
    if (leads) {
      const uint32_t behind = lane == 31 ? 0 : stops >> (lane + 1);
      const int run = behind == 0 ? 32 - lane : __ffs(static_cast<int>(behind));
      bulk_copy(to, source.address, run * kBlockBytes, &shared.full[at.stage]);
    } else if (partial >> lane & 1) {
      bulk_copy(to, source.address, kHalfBytes, &shared.full[at.stage]);
    }
    at.advance();
  }

  __device__ __forceinline__ void publish(const PrefillItem& item) {
    barrier_wait(&shared.item_empty[item_at.stage], item_at.parity ^ 1);
    if (threadIdx.x == 0) {
      shared.items[item_at.stage] = item;
      barrier_arrive(&shared.item_full[item_at.stage]);
    }
    item_at.advance();
  }

  __device__ __forceinline__ int32_t take() const {
    const int32_t number = threadIdx.x == 0 ? static_cast<int32_t>(atomicAdd(args.next_item, 1u)) : 0;
    return number;
  }

  __device__ void run() {
    PrefillItem item;
    int32_t taken = take();
    for (;;) {
      const int32_t number = __shfl_sync(~0u, taken, 0);
      if (number >= args.items) break;
      int32_t list;
      int32_t own_begin;
      if (!find_item(args, number, item, list, own_begin)) {
        taken = take();
        continue;
      }
      const PrefillKeys keys = find_keys(args, item, list, own_begin);
      item.key_tiles = keys.num_blocks == 0 ? 1 : (keys.num_blocks + kTileBlocks - 1) / kTileBlocks;
      publish(item);
      const DeviceKvHead* head = args.heads + item.kv_head;
      const void* const* pages = head->pages;
      const int32_t length = head->length;
      Source source = locate(keys, pages, 0);
      for (int tile = 0; tile < item.key_tiles; ++tile) {
        // Late, so that the heaviest work goes to whoever is free; not too late, so that nobody waits for it.
        if (tile == (item.key_tiles > 3 ? item.key_tiles - 3 : 0)) taken = take();
        bring(keys, head, length, source);
        source = locate(keys, pages, tile + 1);
      }
    }
    item.kv_head = -1;
    publish(item);
  }
};

}  // namespace ei::kernels::cuda
