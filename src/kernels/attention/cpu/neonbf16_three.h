// The weighted sum of V for three rows of weights, tuned on Neoverse V1 like neon_bfmmla.h: BFMMLA takes rows by two
// and would work in vain for a fourth, BFDOT multiplies what is there. The sums are those of BFMMLA to the last bit,
// since that adds its four products two by two. Unnamed namespace: see flash.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace ei::kernels {
namespace {

inline constexpr int kThreeKeys = 128;    // at most, and a multiple of eight
inline constexpr int kThreeColumns = 32;  // together, as four times eight

// out[3, dim] += weights[3, kThreeKeys] values[count, dim] for four times eight columns, `apart` from each other; asks
// for 64 count bytes at `ahead`. Written out because compilers load many rows before they use the first one. The core
// reads at most four registers a cycle besides those that it loaded or made lately, so both operands of a zip must be
// fresh.
inline void weigh_three_columns(const uint16_t* weights, const uint16_t* values, int64_t count, int64_t dim,
                                int64_t apart, float* out, const uint16_t* ahead) {
  const uint16_t* odd = values + dim;
  int64_t step = 4 * dim;  // bytes of two keys
  // clang-format off
#define EI_LINE(text) text "\n\t"
#define EI_SUM(op, a, b) EI_LINE(op " " a ", " b ", [%[out]]") EI_LINE("add %[out], %[out], %[twice]")
#define EI_ROW_END EI_LINE("add %[out], %[out], %[rest]")
#define EI_SUMS(op)                                                                                               \
  EI_SUM(op, "q0", "q1")    EI_SUM(op, "q2", "q3")    EI_SUM(op, "q4", "q5")    EI_SUM(op, "q6", "q7")    EI_ROW_END \
  EI_SUM(op, "q8", "q9")    EI_SUM(op, "q10", "q11")  EI_SUM(op, "q12", "q13")  EI_SUM(op, "q14", "q15")  EI_ROW_END \
  EI_SUM(op, "q16", "q17")  EI_SUM(op, "q18", "q19")  EI_SUM(op, "q20", "q21")  EI_SUM(op, "q22", "q23")  EI_ROW_END
#define EI_DOTS(from, lane, a, b, c)                                                                           \
  EI_LINE("bfdot " a ".4s, " from ".8h, v24.2h[" lane "]") EI_LINE("bfdot " b ".4s, " from ".8h, v25.2h[" lane "]") \
  EI_LINE("bfdot " c ".4s, " from ".8h, v26.2h[" lane "]")
#define EI_PART(lane, next, a, b, c, d, e, f)                                                                  \
  EI_LINE("zip1 v29.8h, v27.8h, v28.8h") EI_DOTS("v29", lane, a, b, c) EI_LINE("zip2 v30.8h, v27.8h, v28.8h")  \
  EI_LINE("ldr q27, [%[even]" next "]") EI_LINE("ldr q28, [%[odd]" next "]") EI_DOTS("v30", lane, d, e, f)
#define EI_PAIR(lane, first, second)                                                                           \
  EI_LINE("prfm pldl2keep, [%[ahead], #" first "]")                                                            \
  EI_PART(lane, ", %[once]", "v0", "v8", "v16", "v1", "v9", "v17")                                          \
  EI_PART(lane, ", %[twice]", "v2", "v10", "v18", "v3", "v11", "v19")                                            \
  EI_LINE("prfm pldl2keep, [%[ahead], #" second "]")                                                           \
  EI_PART(lane, ", %[thrice]", "v4", "v12", "v20", "v5", "v13", "v21")                                       \
  EI_LINE("add %[even], %[even], %[step]") EI_LINE("add %[odd], %[odd], %[step]")                              \
  EI_PART(lane, "", "v6", "v14", "v22", "v7", "v15", "v23")
  asm volatile(
      EI_SUMS("ldp")
      EI_LINE("sub %[out], %[out], %[all]")
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
        [ahead] "+r"(ahead), [out] "+r"(out)
      : [once] "r"(2 * apart), [twice] "r"(4 * apart), [thrice] "r"(6 * apart), [rest] "r"(4 * dim - 16 * apart),
        [all] "r"(12 * dim)
      : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30");
#undef EI_PAIR
#undef EI_PART
#undef EI_DOTS
#undef EI_SUMS
#undef EI_ROW_END
#undef EI_SUM
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
  // Columns side by side would fill one cache line of several, and such gaps slow memory by a third; but of long
  // rows the lines do not stay in the L1 cache until their other columns come.
  const int apart = dim <= 128 ? dim / 4 : 8;
  for (int begin = 0; begin < dim; begin += 4 * apart) {
    for (int d = begin; d < begin + apart; d += 8, ahead += kThreeColumns * count)
      weigh_three_columns(weights[0], values + d, count, dim, apart, out + d, ahead);
  }
}

}  // namespace
}  // namespace ei::kernels
