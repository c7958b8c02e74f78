// The products of a rating (rating_work.cuh) on Hopper: rows of queries with keys or with the extremes of super-blocks.
//
// Persistent CTAs take every n-th item. Some warps in turn bring tiles of panels, eight keys each, by bulk copies:
// where a panel lies takes loads that wait for each other. Two warpgroups of 64 rows multiply. Of a tile only little is
// kept: the best key of every block and row, a sum, a bound.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "kernels/attention/cuda/hopper.cuh"
#include "kernels/attention/cuda/rows.cuh"
#include "kernels/attention/cuda/wgmma.cuh"
#include "kernels/block_scores/cuda/rating_tables.cuh"

namespace ei::kernels::cuda {

template <int kHeadDim, typename T, Products kKindOf>
struct RatingConfig {
  using Element = T;
  static constexpr Products kKind = kKindOf;
  static constexpr int kDim = kHeadDim;
  static constexpr int kPanels = kDim == 256 ? 8 : 16;  // of a tile
  static constexpr int kKeys = kPanels * kPanelKeys;
  static constexpr int kMine = kPanels / 4;  // panels of a tile whose peaks a thread keeps
  static constexpr KvLayout kLayout{kDim, 2};
  static constexpr int kHalfBytes = kLayout.half_bytes();
  // Extremes lie as keys and values do; of keys the first half of a block is read.
  static constexpr int kPanelBytes = kKind == Products::kBounds ? 2 * kHalfBytes : kHalfBytes;
  static constexpr int kStageBytes = kPanels * kPanelBytes;
  static constexpr int kStages = 200 * 1024 / kStageBytes < 8 ? 200 * 1024 / kStageBytes : 8;
  // Warps that bring tiles. No more than stages: of a barrier only the phase before can be told from the one in work,
  // and a warp that came to a stage knows by its own last tile alone that the one before the last was consumed.
  static constexpr int kProducers = kKind == Products::kBounds ? 1 : 4;
  static_assert(kProducers <= kStages);
  static constexpr int kThreads = 384;
};

template <class Config>
struct RatingShared {
  uint64_t full[Config::kStages];
  uint64_t empty[Config::kStages];
  CloseTasks<Config::kThreads> close;
};

// Panels of an item: `first` of the range and how many; of own segments one tile more, the first block, comes last. Of
// peaks the last tile may be empty.
struct RatingRange {
  int32_t first;
  int32_t panels;
  int32_t tiles;
};

template <class Config>
__device__ __forceinline__ RatingRange range_of(const RatingArgs& args, const RatingTask& task,
                                                const RatingItem& item) {
  constexpr int kPanels = Config::kPanels;
  if constexpr (Config::kKind == Products::kOwn) {
    const int32_t last = item.row + kRatingRows < task.rows ? item.row + kRatingRows - 1 : task.rows - 1;
    const int32_t token = task.chosen ? task.first_token + task.tokens - 1 : token_of(args, task, last);
    const int32_t keys = args.params.first_position + token + 1 - task.own_begin;
    const int32_t panels = (keys + kPanelKeys - 1) / kPanelKeys;
    return {task.own_begin / kPanelKeys, panels, (panels + kPanels - 1) / kPanels + 1};
  } else if constexpr (Config::kKind == Products::kBounds) {
    const int32_t panels = (task.supers + kPanelKeys - 1) / kPanelKeys;
    return {0, panels, (panels + kPanels - 1) / kPanels};
  } else {
    const int32_t first = item.split * kSplitPanels;
    const int32_t left = task.blocks * args.parts - first;
    const int32_t panels = left < kSplitPanels ? left : kSplitPanels;
    return {first, panels, (panels + 2 * kPanels - 1) / (2 * kPanels) * 2};
  }
}

template <class Config>
struct RatingProducer {
  const RatingArgs& args;
  const RatingTables& tables;
  RatingShared<Config>& shared;
  const uint32_t tiles;
  const int warp;
  RatingStage at{};
  int turn = 0;  // whose warp's the next tile is

  __device__ __forceinline__ const uint8_t* source(const RatingTask& task, const RatingItem& item,
                                                   const RatingRange& range, int tile, int lane) const {
    int32_t number = tile * Config::kPanels + lane;
    if constexpr (Config::kKind == Products::kBounds) {
      if (number >= range.panels) return nullptr;
      const int64_t panel = task.kv_head * (args.params.index_supers / kPanelKeys) + number;
      return static_cast<const uint8_t*>(args.params.index) + panel * Config::kPanelBytes;
    } else {
      int32_t panel;
      if constexpr (Config::kKind == Products::kOwn) {
        if (tile + 1 == range.tiles) {  // the first block
          if (lane >= args.parts) return nullptr;
          panel = lane;
        } else {
          if (number >= range.panels) return nullptr;
          panel = range.first + number;
        }
      } else {
        if (number >= range.panels) return nullptr;
        number += range.first;
        const int32_t place = number / args.parts;
        panel = rated_block(args, task, item.task, place) * args.parts + number - place * args.parts;
      }
      const int32_t page_panels = args.params.pages.shape.slots / kPanelKeys;
      const int32_t page = panel / page_panels;
      return static_cast<const uint8_t*>(args.params.heads[task.kv_head].pages[page]) +
             (panel - page * page_panels) * int64_t{2 * Config::kHalfBytes};
    }
  }

  __device__ void run(int32_t items) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    for (int32_t number = static_cast<int32_t>(blockIdx.x); number < items; number += static_cast<int32_t>(gridDim.x)) {
      const RatingItem item = find_item(args, tables, Config::kKind, number);
      const RatingTask task = tables.tasks[item.task];
      const RatingRange range = range_of<Config>(args, task, item);
      const auto place = [&](int tile) -> const uint8_t* {
        return tile < range.tiles && lane < Config::kPanels ? source(task, item, range, tile, lane) : nullptr;
      };
      int own = (warp - turn + Config::kProducers) % Config::kProducers;  // the warp's next tile
      const uint8_t* next = place(own);  // looked up while the one before is waited for
      for (int tile = 0; tile < range.tiles; ++tile, turn = (turn + 1) % Config::kProducers) {
        if (tile != own) {
          at.template advance<Config::kStages>();
          continue;
        }
        const uint8_t* from = next;
        own += Config::kProducers;
        next = place(own);
        const int count = __popc(__ballot_sync(~0u, from != nullptr));
        barrier_wait(&shared.empty[at.stage], at.parity ^ 1);
        if (lane == 0) barrier_expect(&shared.full[at.stage], static_cast<uint32_t>(count * Config::kPanelBytes));
        __syncwarp();
        if (from != nullptr)
          bulk_copy(tiles + at.stage * Config::kStageBytes + lane * Config::kPanelBytes, from, Config::kPanelBytes,
                    &shared.full[at.stage]);
        at.template advance<Config::kStages>();
      }
    }
  }
};

}  // namespace ei::kernels::cuda

#include "kernels/block_scores/cuda/rating_consumer_sm90a.cuh"

namespace ei::kernels::cuda {

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1) rating_sm90a(const __grid_constant__ RatingArgs args) {
  extern __shared__ __align__(1024) uint8_t rating_tiles[];
  __shared__ RatingShared<Config> shared;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Config::kStages; ++i) {
      barrier_init(&shared.full[i], 1);
      barrier_init(&shared.empty[i], 8 * kLanesArriving);
    }
    barrier_init_fence();
  }
  const RatingTables tables = shared.close.bring(args, Config::kKind);
  __syncthreads();
  const int32_t items = tables.first[args.num_tasks];
  const int warpgroup = static_cast<int>(threadIdx.x / 128);
  if (warpgroup == 0) {
    give_registers<40>();
    const auto warp = static_cast<int>(threadIdx.x / 32);
    if (warp < Config::kProducers)
      RatingProducer<Config>{args, tables, shared, shared_address(rating_tiles), warp}.run(items);
  } else {
    take_registers<232>();
    RatingConsumer<Config> consumer{args, tables, shared, shared_address(rating_tiles), warpgroup - 1};
    if constexpr (Config::kKind == Products::kOwn) {
      consumer.run_own(items);
    } else if constexpr (Config::kKind == Products::kBounds) {
      consumer.run_bounds(items);
    } else {
      consumer.run_peaks(items);
    }
  }
}

template <class Config>
cudaError_t launch_rating_kind(const RatingArgs& args, int sms, cudaStream_t stream) {
  constexpr int kBytes = Config::kStages * Config::kStageBytes;
  const cudaError_t error =
      cudaFuncSetAttribute(rating_sm90a<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  rating_sm90a<Config><<<sms, Config::kThreads, kBytes, stream>>>(args);
  return cudaGetLastError();
}

template <int kDim, typename T>
cudaError_t launch_rating_type(const RatingArgs& args, Products kind, int sms, cudaStream_t stream) {
  switch (kind) {
    case Products::kOwn: return launch_rating_kind<RatingConfig<kDim, T, Products::kOwn>>(args, sms, stream);
    case Products::kBounds: return launch_rating_kind<RatingConfig<kDim, T, Products::kBounds>>(args, sms, stream);
    case Products::kPeaks: break;
  }
  return launch_rating_kind<RatingConfig<kDim, T, Products::kPeaks>>(args, sms, stream);
}

template <int kDim>
int launch_rating_dim(const RatingArgs& args, Products kind, DType type, int sms, void* stream) {
  auto* queue = static_cast<cudaStream_t>(stream);
  return type == DType::kF16 ? launch_rating_type<kDim, __half>(args, kind, sms, queue)
                             : launch_rating_type<kDim, __nv_bfloat16>(args, kind, sms, queue);
}

}  // namespace ei::kernels::cuda
