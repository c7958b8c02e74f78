#if defined(__aarch64__)

#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "kernels/cpu/peak_loops.h"

namespace ei::kernels {
namespace {

constexpr int kIndependent = 16;

double run(int64_t rounds) {
  float32x4_t acc[kIndependent] = {};
  uint16x8_t a = vdupq_n_u16(0x3a83);
  uint16x8_t b = a;
  // Opaque starts: sums that are visibly equal would be computed once.
#pragma GCC unroll 16
  for (auto& lanes : acc) asm volatile("" : "+w"(lanes));
  for (int64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+w"(a), "+w"(b));
#pragma GCC unroll 16
    for (auto& lanes : acc) lanes = vbfmmlaq_f32(lanes, vreinterpretq_bf16_u16(a), vreinterpretq_bf16_u16(b));
  }
#pragma GCC unroll 16
  for (auto& lanes : acc) asm volatile("" : : "w"(lanes));
  return kIndependent * 32.0;
}

}  // namespace

PeakLoop neonbf16_peak_loop() {
  return {.bf16 = true, .usable = [] { return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0; }, .run = run};
}

}  // namespace ei::kernels

#endif
