// Running sums of attention: the contract shared by the reference and its fast twins.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/window_scores/window_scores.h"

namespace ei::kernels {

// The attention of some queries, each a softmax over the slots that it sees, added to what earlier ones gave:
// sums[slot] = before[slot] + sum over the queries of their attention to the slot.
//
// A query's attention is rounded to a multiple of 2^-32 first. Sums of such numbers are exact in a double up to 2^21,
// so they depend neither on the order of the queries nor on how a text was cut into chunks.
struct AttentionSumParams {
  WindowScoreParams queries;          // q, positions, window, num_heads, scale, kv; neither scores nor entropy
  const double* before = nullptr;     // [num_heads, stride]; may be `sums`
  std::vector<int64_t> counted = {};  // [kv_heads]: slots of `before` that hold sums; those behind have none yet
  double* sums = nullptr;             // [num_heads, stride]: the first kv.heads[h / group].length of a row are written
  int64_t stride = 0;
};

// Running sums as scores of slots: scores[h, slot] = sums[h, slot], rounded to the nearest.
struct SumScoreParams {
  const double* sums = nullptr;  // [num_heads, sum_stride]
  int64_t sum_stride = 0;
  int32_t num_heads = 0;
  int64_t slots = 0;        // of every head
  float* scores = nullptr;  // [num_heads, stride], stream memory
  int64_t stride = 0;
};

// Doubles for each head and slot that a backend takes beside the sums, at most.
inline constexpr int64_t kSumRoom = 4;

// 2^52 * 2^-32 = 2^20: added to an attention and taken off again, it leaves a multiple of 2^-32.
inline constexpr double kSumRounding = 1.5 * (1 << 20);

}  // namespace ei::kernels
