// What the kernels of a rating that use wgmma share: the tasks in shared memory, and the stages of tiles in turn.
#pragma once

#include <cstdint>

#include "kernels/block_scores/cuda/rating_work.cuh"

namespace ei::kernels::cuda {

inline constexpr int kTasksClose = 256;  // that are copied into shared memory

template <int kThreads>
struct CloseTasks {
  RatingTask tasks[kTasksClose];
  int32_t first[kTasksClose + 1];

  // By all threads; a barrier follows.
  __device__ __forceinline__ RatingTables bring(const RatingArgs& args, Products kind) {
    const int32_t* from = args.first_item[static_cast<int>(kind)];
    if (args.num_tasks > kTasksClose) return {args.tasks, from};
    constexpr int kWords = sizeof(RatingTask) / sizeof(int32_t);
    const auto* words = reinterpret_cast<const int32_t*>(args.tasks);
    for (auto i = static_cast<int32_t>(threadIdx.x); i < args.num_tasks * kWords; i += kThreads)
      reinterpret_cast<int32_t*>(tasks)[i] = words[i];
    for (auto i = static_cast<int32_t>(threadIdx.x); i <= args.num_tasks; i += kThreads) first[i] = from[i];
    return {tasks, first};
  }
};

struct RatingStage {
  int stage = 0;
  uint32_t parity = 0;
  template <int kStages>
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace ei::kernels::cuda
