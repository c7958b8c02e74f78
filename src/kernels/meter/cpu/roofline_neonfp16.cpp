#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/meter/cpu/roofline_loops.h"
#include "kernels/simd/arm_features.h"

namespace ei::kernels {
namespace {

constexpr int kIndependent = 16;

double run(int64_t rounds) {
  float16x8_t acc[kIndependent] = {};
  float16x8_t a = vdupq_n_f16(static_cast<float16_t>(1e-3f));
  float16x8_t b = a;
  // Opaque starts: sums that are visibly equal would be computed once.
#pragma GCC unroll 16
  for (auto& lanes : acc) asm volatile("" : "+w"(lanes));
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+w"(a), "+w"(b));
#pragma GCC unroll 16
    for (auto& lanes : acc) lanes = vfmaq_f16(lanes, a, b);
  }
#pragma GCC unroll 16
  for (auto& lanes : acc) asm volatile("" : : "w"(lanes));
  return kIndependent * 16.0;
}

}  // namespace

ThroughputLoop neonfp16_throughput_loop() { return {.bf16 = true, .usable = cpu_has_fp16, .run = run}; }

}  // namespace ei::kernels

#endif
