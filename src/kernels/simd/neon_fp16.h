// Products in half precision on ARM: a short run of them is added up in half precision, eight lanes an instruction, and
// then joined to sums in fp32. Unnamed namespace: see attention/cpu/flash.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace ei::kernels {
namespace {

inline constexpr int kHalfRun = 32;      // products that are added up in half precision
inline constexpr int kHalfRows = 8;      // of a block: lanes of an operand
inline constexpr int kHalfColumns = 16;  // of a block: two vectors

// out[8, 16] += a[depth, 8]^T b[depth, 16]; depth is a multiple of four and not zero. Written out because GCC 12 copies
// every lane of `a` into a register of its own first, and takes half as long again.
inline void add_half_products(const float16_t* a, const float16_t* b, int64_t depth, float* out) {
  // clang-format off
#define EI_LINE(text) text "\n\t"
#define EI_ROW(op, low, high, lane)                                                                        \
  EI_LINE(op " " low ".8h, v1.8h, v0.h[" lane "]") EI_LINE(op " " high ".8h, v2.8h, v0.h[" lane "]")
#define EI_STEP(op)                                                                                        \
  EI_LINE("ldr q0, [%[a]], #16") EI_LINE("ldp q1, q2, [%[b]], #32")                                        \
  EI_ROW(op, "v16", "v17", "0") EI_ROW(op, "v18", "v19", "1") EI_ROW(op, "v20", "v21", "2")                \
  EI_ROW(op, "v22", "v23", "3") EI_ROW(op, "v24", "v25", "4") EI_ROW(op, "v26", "v27", "5")                \
  EI_ROW(op, "v28", "v29", "6") EI_ROW(op, "v30", "v31", "7")
#define EI_JOIN(sums, at, s0, s1, wide)                                                                    \
  EI_LINE("ldp q" s0 ", q" s1 ", [%[out], #" at "]") EI_LINE("fcvtl " wide ".4s, " sums ".4h")             \
  EI_LINE("fcvtl2 " sums ".4s, " sums ".8h")                                                               \
  EI_LINE("fadd v" s0 ".4s, v" s0 ".4s, " wide ".4s") EI_LINE("fadd v" s1 ".4s, v" s1 ".4s, " sums ".4s")  \
  EI_LINE("stp q" s0 ", q" s1 ", [%[out], #" at "]")
  asm volatile(
      EI_STEP("fmul") EI_STEP("fmla") EI_STEP("fmla") EI_STEP("fmla")
      EI_LINE("subs %[depth], %[depth], #4")
      EI_LINE("b.eq 2f")
      "1:\n\t"
      EI_STEP("fmla") EI_STEP("fmla") EI_STEP("fmla") EI_STEP("fmla")
      EI_LINE("subs %[depth], %[depth], #4")
      EI_LINE("b.ne 1b")
      "2:\n\t"
      EI_JOIN("v16", "0", "0", "1", "v2")    EI_JOIN("v17", "32", "3", "4", "v5")   EI_JOIN("v18", "64", "6", "7", "v0")
      EI_JOIN("v19", "96", "1", "2", "v3")   EI_JOIN("v20", "128", "4", "5", "v6")  EI_JOIN("v21", "160", "7", "0", "v1")
      EI_JOIN("v22", "192", "2", "3", "v4")  EI_JOIN("v23", "224", "5", "6", "v7")  EI_JOIN("v24", "256", "0", "1", "v2")
      EI_JOIN("v25", "288", "3", "4", "v5")  EI_JOIN("v26", "320", "6", "7", "v0")  EI_JOIN("v27", "352", "1", "2", "v3")
      EI_JOIN("v28", "384", "4", "5", "v6")  EI_JOIN("v29", "416", "7", "0", "v1")  EI_JOIN("v30", "448", "2", "3", "v4")
      EI_JOIN("v31", "480", "5", "6", "v7")
      : [a] "+r"(a), [b] "+r"(b), [depth] "+r"(depth)
      : [out] "r"(out)
      : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22",
        "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
#undef EI_JOIN
#undef EI_STEP
#undef EI_ROW
#undef EI_LINE
  // clang-format on
}

// out[8] += sums
inline void add_widened(float16x8_t sums, float* out) {
  vst1q_f32(out, vaddq_f32(vld1q_f32(out), vcvt_f32_f16(vget_low_f16(sums))));
  vst1q_f32(out + 4, vaddq_f32(vld1q_f32(out + 4), vcvt_high_f32_f16(sums)));
}

}  // namespace
}  // namespace ei::kernels
