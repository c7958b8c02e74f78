// The two inner loops of bf16 attention on ARM, tuned on Neoverse V1: a 10 x 8 block of products by BFMMLA, and the
// weights of the softmax. BFMMLA multiplies two rows of four bf16 by two rows of four and adds the 2x2 result to four
// fp32 lanes, so operands are packed as pairs of rows. Unnamed namespace: see flash.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace ei::kernels {
namespace {

// Twenty accumulators: BFMMLA takes five cycles, and four of them start in every cycle.
inline constexpr int kRowPairs = 5;
inline constexpr int kColumnPairs = 4;

// out = in + a b^T over `steps` groups of eight, at least one:
//   a [step, row pair, half, 2 rows, 4], b [step, half, column pair, 2 columns, 4], in and out [row pair, column pair,
//   2x2].
// Written out because 29 live registers leave compilers no slack: they spill accumulators inside the loop.
inline void multiply(const uint16_t* a, const uint16_t* b, int64_t steps, const float* in, float* out) {
  // clang-format off
#define EI_LINE(text) text "\n\t"
#define EI_SUMS(op, base)                                                                                     \
  EI_LINE(op " q9, q10, [" base "]")          EI_LINE(op " q11, q12, [" base ", #32]")                        \
  EI_LINE(op " q13, q14, [" base ", #64]")    EI_LINE(op " q15, q16, [" base ", #96]")                        \
  EI_LINE(op " q17, q18, [" base ", #128]")   EI_LINE(op " q19, q20, [" base ", #160]")                       \
  EI_LINE(op " q21, q22, [" base ", #192]")   EI_LINE(op " q23, q24, [" base ", #224]")                       \
  EI_LINE(op " q25, q26, [" base ", #256]")   EI_LINE(op " q27, q28, [" base ", #288]")
#define EI_ROW(left, c0, c1, c2, c3)                                                                          \
  EI_LINE("bfmmla " c0 ".4s, " left ".8h, v5.8h")  EI_LINE("bfmmla " c1 ".4s, " left ".8h, v6.8h")            \
  EI_LINE("bfmmla " c2 ".4s, " left ".8h, v7.8h")  EI_LINE("bfmmla " c3 ".4s, " left ".8h, v8.8h")
#define EI_ROWS                                                                                               \
  EI_ROW("v0", "v9", "v10", "v11", "v12")   EI_ROW("v1", "v13", "v14", "v15", "v16")                          \
  EI_ROW("v2", "v17", "v18", "v19", "v20")  EI_ROW("v3", "v21", "v22", "v23", "v24")                          \
  EI_ROW("v4", "v25", "v26", "v27", "v28")
  asm volatile(
      EI_SUMS("ldp", "%[in]")
      "1:\n\t"
      EI_LINE("ldp q5, q6, [%[b]]")        EI_LINE("ldr q0, [%[a]]")
      EI_LINE("ldp q7, q8, [%[b], #32]")   EI_LINE("ldr q1, [%[a], #32]")
      EI_LINE("ldr q2, [%[a], #64]")       EI_LINE("ldr q3, [%[a], #96]")
      EI_LINE("ldr q4, [%[a], #128]")
      EI_ROWS
      EI_LINE("ldp q5, q6, [%[b], #64]")   EI_LINE("ldr q0, [%[a], #16]")
      EI_LINE("ldp q7, q8, [%[b], #96]")   EI_LINE("ldr q1, [%[a], #48]")
      EI_LINE("ldr q2, [%[a], #80]")       EI_LINE("ldr q3, [%[a], #112]")
      EI_LINE("ldr q4, [%[a], #144]")
      EI_LINE("subs %[steps], %[steps], #1")
      EI_LINE("add %[a], %[a], #160")      EI_LINE("add %[b], %[b], #128")
      EI_ROWS
      EI_LINE("b.ne 1b")
      EI_SUMS("stp", "%[out]")
      : [a] "+r"(a), [b] "+r"(b), [steps] "+r"(steps)
      : [in] "r"(in), [out] "r"(out)
      : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28");
#undef EI_ROWS
#undef EI_ROW
#undef EI_SUMS
#undef EI_LINE
  // clang-format on
}

// Weights 2^s of `vectors` (a multiple of 8) consecutive vectors of scores, as bf16, each weight times the same
// constant. Two 2x2 vectors of scores {keys 0 1} and {keys 2 3} become one operand, each row's keys in the order
// 0 2 1 3. Eight vectors go through every step together: the chain of one alone is longer than the CPU looks ahead.
inline void weigh(const float* s, int64_t vectors, uint16_t* p) {
  // 2^r for |r| <= 1/2 is, up to a factor and a relative error of 7.5e-5, (r + kA) (r (r + kB) + kC).
  constexpr float kA = 2.33833904126f;
  constexpr float kB = 2.05904664824f;
  constexpr float kC = 7.75077505147f;
  constexpr float kRoundToInt = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded integer in the low bits
  constexpr int kTogether = 8;
  for (int64_t v = 0; v < vectors; v += kTogether, s += 4 * kTogether, p += 4 * kTogether) {
    float32x4_t x[kTogether];
    float32x4_t shifted[kTogether];
    float32x4_t left[kTogether];
    float32x4_t right[kTogether];
    for (int i = 0; i < kTogether; ++i) x[i] = vmaxq_f32(vld1q_f32(s + 4 * i), vdupq_n_f32(-120.0f));
    for (int i = 0; i < kTogether; ++i) shifted[i] = vaddq_f32(x[i], vdupq_n_f32(kRoundToInt));
    for (int i = 0; i < kTogether; ++i) x[i] = vsubq_f32(x[i], vsubq_f32(shifted[i], vdupq_n_f32(kRoundToInt)));
    for (int i = 0; i < kTogether; ++i) right[i] = vaddq_f32(x[i], vdupq_n_f32(kB));
    for (int i = 0; i < kTogether; ++i) right[i] = vfmaq_f32(vdupq_n_f32(kC), x[i], right[i]);
    for (int i = 0; i < kTogether; ++i) left[i] = vaddq_f32(x[i], vdupq_n_f32(kA));
    for (int i = 0; i < kTogether; ++i) left[i] = vmulq_f32(left[i], right[i]);
    uint32x4_t weight[kTogether];
    for (int i = 0; i < kTogether; ++i) {
      const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(shifted[i]), 23);
      weight[i] = vaddq_u32(vreinterpretq_u32_f32(left[i]), exponent);
    }
    // The upper halves of two vectors side by side: bf16 by truncation. Sums are taken of the truncated weights, so
    // that the bias cancels.
    for (int i = 0; i < kTogether; i += 2)
      vst1q_u16(p + 4 * i, vreinterpretq_u16_u32(vsriq_n_u32(weight[i + 1], weight[i], 16)));
  }
}

}  // namespace
}  // namespace ei::kernels
