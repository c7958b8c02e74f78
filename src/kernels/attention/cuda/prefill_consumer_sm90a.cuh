// A warpgroup of prefill_sm90a: 64 rows of every item, products by wgmma, softmax in registers.
#pragma once

#include "kernels/attention/cuda/prefill_sm90a.cuh"

namespace ei::kernels::cuda {

template <class Config>
struct PrefillConsumer {
  using Shared = PrefillShared<Config>;
  using T = typename Config::Element;
  static constexpr int kDim = Config::kDim;
  static constexpr int kKeys = Config::kTileKeys;
  static constexpr KvLayout kLayout = Shared::kLayout;
  static constexpr int kBlockBytes = kLayout.block_bytes();
  static constexpr int kHalfBytes = kLayout.half_bytes();
  static constexpr int kSwizzle = kLayout.atom_row_bytes();
  static constexpr int kQueryWords = Config::kQueryRegisters ? kDim / 4 : 1;

  const PrefillArgs& args;
  Shared& shared;
  const uint32_t tiles;
  const int warpgroup;

  PipelineState<Config::kStages> at{};
  PipelineState<kItemSlots> item_at{};

  __device__ __forceinline__ int lane() const { return threadIdx.x % 32; }
  __device__ __forceinline__ int row() const { return warpgroup * 64 + threadIdx.x % 128 / 32 * 16 + lane() / 4; }
  __device__ __forceinline__ uint32_t query_tile() const {
    return tiles + Config::kStages * Shared::kStageBytes + warpgroup * (Shared::kQueryBytes / Config::kConsumers);
  }
  // Bytes from the beginning of a half block to the columns of product step `step`, 16 elements deep.
  static constexpr int step_offset(int step) {
    return step * 32 / kSwizzle * kLayout.atom_bytes() + step * 32 % kSwizzle;
  }

  // Index of a row's first element among the queries or outputs; -1: the item has no such row.
  __device__ __forceinline__ int64_t row_index(const PrefillItem& item, int in_item, int64_t stride) const {
    const int32_t at_row = item.row + in_item;
    if (at_row >= item.rows) return -1;
    const int32_t token = at_row / args.group;
    const int32_t head = item.kv_head * args.group + at_row - token * args.group;
    return (item.first_token + token) * stride + static_cast<int64_t>(head) * kDim;
  }

  // The slot of the next item; it can be read until leave().
  __device__ __forceinline__ int next_item() {
    const int slot = item_at.stage;
    barrier_wait(&shared.item_full[slot], item_at.parity);
    item_at.advance();
    return slot;
  }
  __device__ __forceinline__ void leave(int slot) {
    __syncwarp();
    if (lane() < kLanesArriving) barrier_arrive(&shared.item_empty[slot]);
  }

  __device__ __forceinline__ void load_queries(const PrefillItem& item, uint32_t (&q)[kQueryWords]) {
    if constexpr (Config::kQueryRegisters) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t index = row_index(item, row() + 8 * half, args.q_stride);
        const int64_t column = index + lane() % 4 * 2;
        if (index >= 0 && args.q_type != DType::kF32) {
          const auto from = reinterpret_cast<const uint32_t*>(static_cast<const T*>(args.q) + column);
#pragma unroll
          for (int pair = 0; pair < kDim / 8; ++pair) q[pair * 2 + half] = from[pair * 4];
        } else {
#pragma unroll
          for (int pair = 0; pair < kDim / 8; ++pair)
            q[pair * 2 + half] = index < 0 ? 0u : load_query_pair<T>(args.q, DType::kF32, column + pair * 8);
        }
      }
    } else {
      named_sync(8 + warpgroup, 128);  // the last item's products have read the old ones
      constexpr KvLayout kRows{kDim, 2};
      constexpr int kPieces = kDim / 8;
      for (int piece = static_cast<int>(threadIdx.x % 128); piece < 64 * kPieces; piece += 128) {
        const int in_tile = piece / kPieces;
        const int64_t index = row_index(item, warpgroup * 64 + in_tile, args.q_stride);
        uint32_t words[4] = {0, 0, 0, 0};
        if (index >= 0) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            words[i] = load_query_pair<T>(args.q, args.q_type, index + piece % kPieces * 8 + 2 * i);
        }
        const uint32_t to = query_tile() + in_tile / 8 * kHalfBytes + kRows.piece_offset(in_tile % 8, piece % kPieces);
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                     "r"(words[3])
                     : "memory");
      }
      async_proxy_fence();
      named_sync(8 + warpgroup, 128);
    }
  }

  __device__ __forceinline__ void multiply_keys(float (&scores)[kKeys / 2], const uint32_t (&q)[kQueryWords],
                                                int stage) const {
    const uint64_t keys = operand<kSwizzle>(tiles + stage * Shared::kStageBytes, 16, kBlockBytes);
    const uint64_t queries = operand<kSwizzle>(query_tile(), 16, kHalfBytes);
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      if constexpr (Config::kQueryRegisters) {
        wgmma_rs<T, false>(scores, q + 4 * step, keys + (step_offset(step) >> 4), step != 0);
      } else {
        wgmma_ss<T>(scores, queries + (step_offset(step) >> 4), keys + (step_offset(step) >> 4), step != 0);
      }
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void multiply_values(float (&out)[kDim / 2], const uint32_t (&weights)[kKeys / 4],
                                                  int stage) const {
    const uint64_t values =
        operand<kSwizzle>(tiles + stage * Shared::kStageBytes + kHalfBytes, kLayout.atom_bytes(), kBlockBytes);
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
      wgmma_rs<T, true>(out, weights + 4 * step, values + (step * 2 * kBlockBytes >> 4), 1);
    wgmma_commit();
  }

  __device__ __forceinline__ void mask_scores(float (&scores)[kKeys / 2], int stage, const PrefillItem& item) {
    if (shared.masked[stage] == 0) return;
    int32_t newest[2];
    int32_t oldest[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      newest[r] = args.first_position + item.first_token + (item.row + row() + 8 * r) / args.group;
      oldest[r] = args.window > 0 ? newest[r] - args.window : INT32_MIN;
    }
#pragma unroll
    for (int i = 0; i < kKeys / 8; ++i) {
      const int2 key = shared.positions[stage][i * 4 + lane() % 4];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (key.x > newest[r] || key.x <= oldest[r]) scores[4 * i + 2 * r] = -INFINITY;
        if (key.y > newest[r] || key.y <= oldest[r]) scores[4 * i + 2 * r + 1] = -INFINITY;
      }
    }
  }

  __device__ __forceinline__ bool weigh(float (&scores)[kKeys / 2], int stage, const PrefillItem& item, RowState& state,
                                        float (&factor)[2]) {
    if constexpr (Config::kSoftcap) cap_scores(scores, args.scale, args.softcap);
    mask_scores(scores, stage, item);
    return softmax_step<Config::kLazy>(scores, Config::kSoftcap ? 1.0f : args.scale, state, factor);
  }

  // The warpgroups issue their products in turn.
  __device__ __forceinline__ void begin_turn() const {
    if constexpr (Config::kTurns) named_sync(2 + warpgroup, 256);
  }
  __device__ __forceinline__ void end_turn() const {
    if constexpr (Config::kTurns) named_arrive(warpgroup + 1 == Config::kConsumers ? 2 : 3 + warpgroup, 256);
  }
  __device__ __forceinline__ void release(int stage) {
    __syncwarp();  // all lanes have read the positions of the tile
    if (lane() < kLanesArriving) barrier_arrive(&shared.empty[stage]);
  }

  __device__ __forceinline__ void write(const PrefillItem& item, const float (&out)[kDim / 2],
                                        const RowState& state) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = state.sum[r];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const int64_t index = row_index(item, row() + 8 * r, args.out_stride);
      if (index < 0) continue;
      const float factor = sum > 0 ? 1.0f / sum : 0.0f;
      write_row<kDim>(args.out, args.out_type, index, out, r, factor);
      if (args.log_sum != nullptr && lane() % 4 == 0) {
        const int64_t heads = static_cast<int64_t>(args.kv_heads) * args.group;
        args.log_sum[row_index(item, row() + 8 * r, heads * kDim) / kDim] = log_of_sum(state.base[r], sum);
      }
    }
  }

  // Tile by tile: scores, softmax, values.
  __device__ __forceinline__ void run_plain() {
    uint32_t q[kQueryWords];
    float out[kDim / 2];
    float scores[kKeys / 2];
    uint32_t weights[kKeys / 4];
    float factor[2];
    for (;;) {
      const int slot = next_item();
      const PrefillItem& item = shared.items[slot];
      if (item.kv_head < 0) return;
      load_queries(item, q);
      RowState state;
#pragma unroll
      for (int i = 0; i < kDim / 2; ++i) out[i] = 0;
      for (int left = item.key_tiles; left > 0; --left) {
        barrier_wait(&shared.full[at.stage], at.parity);
        pin(scores);
        wgmma_fence();
        multiply_keys(scores, q, at.stage);
        wgmma_wait<0>();
        pin(scores);
        if (weigh(scores, at.stage, item, state, factor)) scale_rows(out, factor[0], factor[1]);
        pack_weights<T>(scores, weights);
        pin(weights);
        pin(out);
        wgmma_fence();
        multiply_values(out, weights, at.stage);
        wgmma_wait<0>();
        pin(out);
        release(at.stage);
        at.advance();
      }
      write(item, out, state);
      leave(slot);
    }
  }

  // The compiler keeps what follows from this in uniform registers, as the operands of wgmma must be; of a value from
  // shared memory it does not know that all lanes have the same.
  static __device__ __forceinline__ int uniform(int value) { return __shfl_sync(~0u, value, 0); }

  // Takes the next item; its queries are on their way. Returns its tiles; 0: there is none.
  __device__ __forceinline__ int begin_next(int& slot, uint32_t (&q)[kQueryWords]) {
    slot = next_item();
    const int tiles_of_keys = uniform(shared.items[slot].kv_head < 0 ? 0 : shared.items[slot].key_tiles);
    if (tiles_of_keys > 0) load_queries(shared.items[slot], q);
    return tiles_of_keys;
  }

  // The scores of a tile are multiplied together with the values of the one before, whose softmax is then over.
  __device__ __forceinline__ void run_overlapped() {
    if constexpr (Config::kTurns) {
      if (warpgroup + 1 == Config::kConsumers) named_arrive(2, 256);
    }
    uint32_t q[kQueryWords];
    float out[kDim / 2];
    float scores[kKeys / 2];
    uint32_t weights[kKeys / 4];
    float factor[2];
    int slot;
    int left = begin_next(slot, q);
    while (left > 0) {
      RowState state;
#pragma unroll
      for (int i = 0; i < kDim / 2; ++i) out[i] = 0;
      barrier_wait(&shared.full[at.stage], at.parity);
      begin_turn();
      pin(scores);
      wgmma_fence();
      multiply_keys(scores, q, at.stage);
      end_turn();
      wgmma_wait<0>();
      pin(scores);
      weigh(scores, at.stage, shared.items[slot], state, factor);
      pack_weights<T>(scores, weights);
      int before = at.stage;
      at.advance();
      while (--left > 0) {
        barrier_wait(&shared.full[at.stage], at.parity);
        begin_turn();
        pin(weights);
        pin(scores);
        pin(out);
        wgmma_fence();
        multiply_keys(scores, q, at.stage);
        multiply_values(out, weights, before);
        end_turn();
        wgmma_wait<1>();
        pin(scores);
        const bool grown = weigh(scores, at.stage, shared.items[slot], state, factor);
        pin(scores);
        compute_before(state.sum[0] + state.sum[1]);
        wgmma_wait<0>();
        pin(out);
        release(before);
        pack_weights<T>(scores, weights);
        if (grown) scale_rows(out, factor[0], factor[1]);
        before = at.stage;
        at.advance();
      }
      const int done = slot;
      left = begin_next(slot, q);  // queries arrive beside the last product
      begin_turn();
      pin(weights);
      pin(out);
      wgmma_fence();
      multiply_values(out, weights, before);
      end_turn();
      wgmma_wait<0>();
      pin(out);
      release(before);
      write(shared.items[done], out, state);
      leave(done);
    }
  }

  __device__ void run() {
    if constexpr (Config::kOverlap) {
      run_overlapped();
    } else {
      run_plain();
    }
  }
};

}  // namespace ei::kernels::cuda
