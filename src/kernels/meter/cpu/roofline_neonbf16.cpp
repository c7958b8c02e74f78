#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/meter/cpu/roofline_loops.h"
#include "kernels/simd/arm_features.h"

namespace ei::kernels {
namespace {

// Operands are loaded anew in every round, as real products do: with operands that never leave their registers some
// cores settle into using half of their units.
constexpr int kRows = 5;
constexpr int kColumns = 4;

double run(int64_t rounds) {
  alignas(64) uint16_t operands[(kRows + kColumns) * 8];
  for (uint16_t& element : operands) element = 0x3a83;
  const uint16_t* from = operands;
  float32x4_t acc[kRows][kColumns] = {};
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+r"(from) : : "memory");
    bfloat16x8_t left[kRows];
    bfloat16x8_t right[kColumns];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) left[i] = vreinterpretq_bf16_u16(vld1q_u16(from + 8 * i));
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) right[j] = vreinterpretq_bf16_u16(vld1q_u16(from + 8 * (kRows + j)));
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) acc[i][j] = vbfmmlaq_f32(acc[i][j], left[i], right[j]);
    }
  }
#pragma GCC unroll 8
  for (auto& row : acc) {
#pragma GCC unroll 8
    for (auto& lanes : row) asm volatile("" : : "w"(lanes));
  }
  return kRows * kColumns * 32.0;
}

}  // namespace

ThroughputLoop neonbf16_throughput_loop() { return {.bf16 = true, .usable = cpu_has_bf16, .run = run}; }

}  // namespace ei::kernels

#endif
