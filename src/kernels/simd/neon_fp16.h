// Products in half precision on ARM, for attention and dense products: short runs are added up in half precision, eight
// lanes an instruction, and joined in fp32. Unnamed namespace: see attention/cpu/flash.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace ei::kernels {
namespace {

inline constexpr int kHalfRun = 32;      // products that are added up in half precision
inline constexpr int kHalfRows = 8;      // of a block: lanes of an operand
inline constexpr int kHalfColumns = 16;  // of a block: two vectors

struct HalfBlock {
  float16x8_t at[kHalfRows][2];  // [row, half of the columns]
};

// a[depth, 8 rows]^T b[depth, 16 columns], depth > 0, in half precision throughout. Written out because GCC 12 copies
// every lane of `a` into a register of its own first, which takes half as long again.
inline __attribute__((always_inline)) HalfBlock multiply_halves(const float16_t* a, const float16_t* b, int64_t depth) {
  HalfBlock sums;
  float16x8_t rows;
  float16x8_t low;
  float16x8_t high;
  // clang-format off
#define EI_LINE(text) text "\n\t"
#define EI_ROW(op, i)                                                       \
  EI_LINE(op " %[l" #i "].8h, %[low].8h, %[rows].h[" #i "]") EI_LINE(op " %[h" #i "].8h, %[high].8h, %[rows].h[" #i "]")
#define EI_STEP(op)                                                         \
  EI_LINE("ldr %q[rows], [%[a]], #16") EI_LINE("ldp %q[low], %q[high], [%[b]], #32") \
  EI_ROW(op, 0) EI_ROW(op, 1) EI_ROW(op, 2) EI_ROW(op, 3) EI_ROW(op, 4) EI_ROW(op, 5) EI_ROW(op, 6) EI_ROW(op, 7)
  asm volatile(
      EI_STEP("fmul")
      EI_LINE("subs %[depth], %[depth], #1")
      EI_LINE("b.eq 2f")
      "1:\n\t"
      EI_STEP("fmla")
      EI_LINE("subs %[depth], %[depth], #1")
      EI_LINE("b.ne 1b")
      "2:\n\t"
      : [l0] "=&w"(sums.at[0][0]), [h0] "=&w"(sums.at[0][1]), [l1] "=&w"(sums.at[1][0]), [h1] "=&w"(sums.at[1][1]),
        [l2] "=&w"(sums.at[2][0]), [h2] "=&w"(sums.at[2][1]), [l3] "=&w"(sums.at[3][0]), [h3] "=&w"(sums.at[3][1]),
        [l4] "=&w"(sums.at[4][0]), [h4] "=&w"(sums.at[4][1]), [l5] "=&w"(sums.at[5][0]), [h5] "=&w"(sums.at[5][1]),
        [l6] "=&w"(sums.at[6][0]), [h6] "=&w"(sums.at[6][1]), [l7] "=&w"(sums.at[7][0]), [h7] "=&w"(sums.at[7][1]),
        [rows] "=&x"(rows), [low] "=&w"(low), [high] "=&w"(high), [a] "+r"(a), [b] "+r"(b), [depth] "+r"(depth)
      :
      : "memory", "cc");
#undef EI_STEP
#undef EI_ROW
#undef EI_LINE
  // clang-format on
  return sums;
}

// out[8] = in[8] + factor[8] * sums.
inline void add_widened(float16x8_t sums, const float* factor, const float* in, float* out) {
  const float32x4_t low = vcvt_f32_f16(vget_low_f16(sums));
  const float32x4_t high = vcvt_high_f32_f16(sums);
  vst1q_f32(out, vfmaq_f32(vld1q_f32(in), low, vld1q_f32(factor)));
  vst1q_f32(out + 4, vfmaq_f32(vld1q_f32(in + 4), high, vld1q_f32(factor + 4)));
}

}  // namespace
}  // namespace ei::kernels
