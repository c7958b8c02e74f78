// The weighted sum of V for three rows of weights, tuned on Neoverse V1 like neon_bfmmla.h: BFMMLA takes rows by two
// and would work in vain for a fourth, BFDOT multiplies what is there. The sums are those of BFMMLA to the last bit,
// since that adds its four products two by two. Unnamed namespace: see flash.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace ei::kernels {
namespace {

inline constexpr int kThreeKeys = 128;    // at most, and a multiple of eight
inline constexpr int kThreeColumns = 32;  // together

// out[3, 32 of dim] += weights[3, kThreeKeys] values[count, 32 of dim]; asks for 64 count bytes at `ahead`.
// Written out because compilers load many rows before they use the first one. The core reads at most four registers a
// cycle besides those that it loaded or made lately, so both operands of a zip must be fresh.
inline void weigh_three_columns(const uint16_t* weights, const uint16_t* values, int64_t count, int64_t dim, float* out,
                                const uint16_t* ahead) {
  const uint16_t* odd = values + dim;
  float* out1 = out + dim;
  float* out2 = out1 + dim;
  int64_t step = 4 * dim;  // bytes of two keys
  // clang-format off
#define EI_LINE(text) text "\n\t"
#define EI_SUMS(op)                                                                                            \
  EI_LINE(op " q0, q1, [%[out]]")       EI_LINE(op " q2, q3, [%[out], #32]")                                   \
  EI_LINE(op " q4, q5, [%[out], #64]")  EI_LINE(op " q6, q7, [%[out], #96]")                                   \
  EI_LINE(op " q8, q9, [%[out1]]")      EI_LINE(op " q10, q11, [%[out1], #32]")                                \
  EI_LINE(op " q12, q13, [%[out1], #64]") EI_LINE(op " q14, q15, [%[out1], #96]")                              \
  EI_LINE(op " q16, q17, [%[out2]]")    EI_LINE(op " q18, q19, [%[out2], #32]")                                \
  EI_LINE(op " q20, q21, [%[out2], #64]") EI_LINE(op " q22, q23, [%[out2], #96]")
#define EI_DOTS(from, lane, a, b, c)                                                                           \
  EI_LINE("bfdot " a ".4s, " from ".8h, v24.2h[" lane "]") EI_LINE("bfdot " b ".4s, " from ".8h, v25.2h[" lane "]") \
  EI_LINE("bfdot " c ".4s, " from ".8h, v26.2h[" lane "]")
#define EI_PART(lane, next, a, b, c, d, e, f)                                                                  \
  EI_LINE("zip1 v29.8h, v27.8h, v28.8h") EI_DOTS("v29", lane, a, b, c) EI_LINE("zip2 v30.8h, v27.8h, v28.8h")  \
  EI_LINE("ldr q27, [%[even], #" next "]") EI_LINE("ldr q28, [%[odd], #" next "]") EI_DOTS("v30", lane, d, e, f)
#define EI_PAIR(lane, first, second)                                                                           \
  EI_LINE("prfm pldl2keep, [%[ahead], #" first "]")                                                            \
  EI_PART(lane, "16", "v0", "v8", "v16", "v1", "v9", "v17")                                                    \
  EI_PART(lane, "32", "v2", "v10", "v18", "v3", "v11", "v19")                                                  \
  EI_LINE("prfm pldl2keep, [%[ahead], #" second "]")                                                           \
  EI_PART(lane, "48", "v4", "v12", "v20", "v5", "v13", "v21")                                                  \
  EI_LINE("add %[even], %[even], %[step]") EI_LINE("add %[odd], %[odd], %[step]")                              \
  EI_PART(lane, "0", "v6", "v14", "v22", "v7", "v15", "v23")
  asm volatile(
      EI_SUMS("ldp")
      EI_LINE("ldr q27, [%[even]]") EI_LINE("ldr q28, [%[odd]]")
      "1:\n\t"
      EI_LINE("ldr q24, [%[weights]]") EI_LINE("ldr q25, [%[weights], #256]") EI_LINE("ldr q26, [%[weights], #512]")
      EI_LINE("add %[weights], %[weights], #16")
      EI_PAIR("0", "0", "64")
      EI_PAIR("1", "128", "192")
      EI_PAIR("2", "256", "320")
      EI_LINE("subs %[count], %[count], #8")
      EI_LINE("csel %[step], %[step], xzr, ne")
      EI_PAIR("3", "384", "448")
      EI_LINE("add %[ahead], %[ahead], #512")
      EI_LINE("b.ne 1b")
      EI_SUMS("stp")
      : [weights] "+r"(weights), [even] "+r"(values), [odd] "+r"(odd), [count] "+r"(count), [step] "+r"(step),
        [ahead] "+r"(ahead)
      : [out] "r"(out), [out1] "r"(out1), [out2] "r"(out2)
      : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30");
#undef EI_PAIR
#undef EI_PART
#undef EI_DOTS
#undef EI_SUMS
#undef EI_LINE
  // clang-format on
}

// out[3, dim] += p[3, count] values[count, dim] for dims and counts of which the above are multiples, at least one.
inline void weigh_three(const float* p, int p_stride, const uint16_t* values, int count, int dim, float* out,
                        const uint16_t* ahead) {
  uint16_t weights[3][kThreeKeys];
  for (int row = 0; row < 3; ++row) {
    for (int key = 0; key < count; key += 8) {
      const float* from = p + row * p_stride + key;
      const bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32(from));
      vst1q_u16(weights[row] + key, vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(low, vld1q_f32(from + 4))));
    }
  }
  for (int d = 0; d < dim; d += kThreeColumns)
    weigh_three_columns(weights[0], values + d, count, dim, out + d, ahead + d * count);
}

}  // namespace
}  // namespace ei::kernels
