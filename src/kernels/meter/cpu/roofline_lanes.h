// The roofline meter's loop on vectors of vec_*.h: the register block of lanes_prefill.h on operands in the first
// cache.
#pragma once

#include "kernels/attention/cpu/lanes.h"

namespace ei::kernels {

// One round is one step of the block: high * vecs multiply-adds.
template <typename V, int high, int vecs, bool pairs>
inline double run_fma_lanes(int64_t rounds) {
  constexpr int kDepth = 64;
  constexpr int kWide = vecs * V::kWidth;
  alignas(64) float operands[kDepth * (high + kWide)];
  for (float& operand : operands) operand = 1e-3f;
  const float* left = operands + kDepth * kWide;
  const float* right = operands;
  asm volatile("" : "+r"(left), "+r"(right) : : "memory");  // nothing about the operands is known beyond here
  V c[high][vecs];
  for (auto& row : c) {
    for (V& sum : row) sum = V::zero();
  }
  for (int64_t round = 0; round < rounds; round += kDepth) {
    const int depth = rounds - round < kDepth ? static_cast<int>(rounds - round) : kDepth;
    multiply_lanes<V, high, vecs, pairs>(
        c, depth, [&](int row, int i) { return left + i * high + row; },
        [&](int i, int v) { return right + i * kWide + v * V::kWidth; });
  }
  V total = V::zero();
  for (auto& row : c) {
    for (V& sum : row) total = total + sum;
  }
  [[maybe_unused]] volatile float sink = total.sum();  // the work must not be optimised away
  return 2.0 * (pairs ? 2 : 1) * high * kWide;
}

}  // namespace ei::kernels
