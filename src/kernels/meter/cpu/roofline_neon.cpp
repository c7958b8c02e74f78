#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/meter/cpu/roofline_loops.h"

namespace ei::kernels {
namespace {

constexpr int kIndependent = 16;

double run(int64_t rounds) {
  float32x4_t acc[kIndependent] = {};
  float32x4_t a = vdupq_n_f32(1e-3f);
  float32x4_t b = vdupq_n_f32(1e-3f);
  // Opaque starts: sums that are visibly equal would be computed once.
#pragma GCC unroll 16
  for (auto& lanes : acc) asm volatile("" : "+w"(lanes));
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+w"(a), "+w"(b));
#pragma GCC unroll 16
    for (auto& lanes : acc) lanes = vfmaq_f32(lanes, a, b);
  }
#pragma GCC unroll 16
  for (auto& lanes : acc) asm volatile("" : : "w"(lanes));
  return kIndependent * 8.0;
}

}  // namespace

ThroughputLoop neon_throughput_loop() {
  return {.bf16 = false, .usable = [] { return true; }, .run = run};
}

}  // namespace ei::kernels

#endif
