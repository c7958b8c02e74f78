// Prefill attention on Hopper: one kernel for dense and for scattered blocks of 8 keys.
//
// Persistent CTAs take items (prefill_work.cuh) from a counter. One warp brings tiles of keys, one bulk copy for every
// run of neighbouring blocks; two warpgroups of 64 rows each multiply. Weights stay in registers. A tile's scores are
// computed while the product with the values of the tile before runs, and the two warpgroups take turns at the tensor
// cores, so that one's softmax runs beside the other's products.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/hopper.cuh"
#include "kernels/attention/cuda/prefill_work.cuh"
#include "kernels/attention/cuda/rows.cuh"
#include "kernels/attention/cuda/wgmma.cuh"

namespace ei::kernels::cuda {

template <int kHeadDim, typename T>
struct PrefillConfig {
  using Element = T;
  static constexpr int kDim = kHeadDim;
  static constexpr bool kSoftcap = false;
  static constexpr int kConsumers = kDim == 64 ? 3 : 2;  // warpgroups; with short rows two leave too much unhidden
  static constexpr int kTileKeys = kDim == 256 ? 64 : kDim == 64 ? 96 : 128;
  static constexpr int kStages = kDim == 256 ? 2 : kDim == 128 ? 3 : kDim == 96 ? 4 : 8;
  static constexpr bool kOverlap = kDim != 256;         // needs three stages
  static constexpr bool kTurns = kDim != 256;           // with kOverlap
  static constexpr bool kQueryRegisters = kDim != 256;  // otherwise queries lie in shared memory
  static constexpr bool kLazy = true;
};

inline constexpr int kItemSlots = 3;  // an item that is being written, one that is read, one that is being found

template <class Config>
struct PrefillShared {
  static constexpr int kTileBlocks = Config::kTileKeys / kBlockKeys;
  static constexpr int kRows = 64 * Config::kConsumers;
  static constexpr int kConsumerWarps = 4 * Config::kConsumers;
  static constexpr int kThreads = 128 * (Config::kConsumers + 1);
  static constexpr KvLayout kLayout{Config::kDim, 2};
  static constexpr int kStageBytes = kTileBlocks * kLayout.block_bytes();
  static constexpr int kQueryBytes = Config::kQueryRegisters ? 0 : kRows * Config::kDim * 2;
  static constexpr int kDynamicBytes = Config::kStages * kStageBytes + kQueryBytes;

  uint64_t full[Config::kStages];
  uint64_t empty[Config::kStages];
  uint64_t item_full[kItemSlots];
  uint64_t item_empty[kItemSlots];
  PrefillItem items[kItemSlots];
  int32_t masked[Config::kStages];
  int2 positions[Config::kStages][Config::kTileKeys / 2];  // of the keys of a masked tile; INT32_MAX: nobody's
};

// Where a pipeline of kStages stages stands.
template <int kStages>
struct PipelineState {
  int stage = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace ei::kernels::cuda

#include "kernels/attention/cuda/prefill_consumer_sm90a.cuh"
#include "kernels/attention/cuda/prefill_producer_sm90a.cuh"

namespace ei::kernels::cuda {

template <class Config>
__global__ void __launch_bounds__(PrefillShared<Config>::kThreads, 1)
    prefill_sm90a(const __grid_constant__ PrefillArgs args) {
  extern __shared__ __align__(1024) uint8_t prefill_tiles[];
  __shared__ PrefillShared<Config> shared;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Config::kStages; ++i) {
      barrier_init(&shared.full[i], kLanesArriving);
      barrier_init(&shared.empty[i], PrefillShared<Config>::kConsumerWarps * kLanesArriving);
    }
    for (int i = 0; i < kItemSlots; ++i) {
      barrier_init(&shared.item_full[i], 1);
      barrier_init(&shared.item_empty[i], PrefillShared<Config>::kConsumerWarps * kLanesArriving);
    }
    barrier_init_fence();
  }
  __syncthreads();
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == 0) {
    give_registers<Config::kConsumers == 3 ? 32 : 40>();
    if (threadIdx.x < 32) PrefillProducer<Config>{args, shared, shared_address(prefill_tiles)}.run();
  } else {
    take_registers<Config::kConsumers == 3 ? 160 : 232>();
    PrefillConsumer<Config>{args, shared, shared_address(prefill_tiles), warpgroup - 1}.run();
  }
}

}  // namespace ei::kernels::cuda
