// Weighted sums of f16 rows for one to three rows of weights, 64 columns at a time. Written out because compilers keep
// some of the 24 sums in memory. Unnamed namespace: see flash.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace ei::kernels {
namespace {

inline constexpr int kWeighKeys = 32;     // most keys of a run
inline constexpr int kWeighColumns = 64;  // together
inline constexpr int kWeighRows = 3;      // at most

// out[kRows, 64] = weights[kRows, 8 eights] values[8 eights, 64], all in half precision; rows of values lie `step`
// bytes apart, `eights` is one to four. Asks for the 1024 eights bytes at `ahead`.
template <int kRows>
inline void weigh_run(const float16_t (&weights)[kRows][kWeighKeys], const float16_t* values, int64_t step,
                      int64_t eights, float16_t (&out)[kRows][kWeighColumns], const float16_t* ahead) {
  static_assert(kRows >= 1 && kRows <= kWeighRows);
  const float16_t* weight = weights[0];
  float16_t* to = out[0];
  // clang-format off
#define EI_LINE(text) text "\n\t"
#define EI_ZERO4(a, b, c, d)                                                                                 \
  EI_LINE("movi " a ".8h, #0") EI_LINE("movi " b ".8h, #0") EI_LINE("movi " c ".8h, #0") EI_LINE("movi " d ".8h, #0")
#define EI_ZERO1 EI_ZERO4("v8", "v9", "v10", "v11") EI_ZERO4("v12", "v13", "v14", "v15")
#define EI_ZERO2 EI_ZERO1 EI_ZERO4("v16", "v17", "v18", "v19") EI_ZERO4("v20", "v21", "v22", "v23")
#define EI_ZERO3 EI_ZERO2 EI_ZERO4("v24", "v25", "v26", "v27") EI_ZERO4("v28", "v29", "v30", "v31")
#define EI_TAKE1(from, lane, a, b, c) EI_LINE("fmla " a ".8h, " from ".8h, v0.h[" lane "]")
#define EI_TAKE2(from, lane, a, b, c) EI_TAKE1(from, lane, a, b, c) EI_LINE("fmla " b ".8h, " from ".8h, v1.h[" lane "]")
#define EI_TAKE3(from, lane, a, b, c) EI_TAKE2(from, lane, a, b, c) EI_LINE("fmla " c ".8h, " from ".8h, v2.h[" lane "]")
#define EI_KEY(take, lane, first, second)                                                                    \
  EI_LINE("ldp q3, q4, [%[values]]") EI_LINE("ldp q5, q6, [%[values], #32]")                                 \
  EI_LINE("prfm pldl2keep, [%[ahead], #" first "]")                                                          \
  take("v3", lane, "v8", "v16", "v24") take("v4", lane, "v9", "v17", "v25")                                  \
  take("v5", lane, "v10", "v18", "v26") take("v6", lane, "v11", "v19", "v27")                                \
  EI_LINE("ldp q3, q4, [%[values], #64]") EI_LINE("ldp q5, q6, [%[values], #96]")                            \
  EI_LINE("prfm pldl2keep, [%[ahead], #" second "]") EI_LINE("add %[values], %[values], %[step]")            \
  take("v3", lane, "v12", "v20", "v28") take("v4", lane, "v13", "v21", "v29")                                \
  take("v5", lane, "v14", "v22", "v30") take("v6", lane, "v15", "v23", "v31")
#define EI_STORE(at, a, b, c, d) EI_LINE("stp " a ", " b ", [%[to], #" at "]") EI_LINE("stp " c ", " d ", [%[to], #" at " + 32]")
#define EI_STORE1 EI_STORE("0", "q8", "q9", "q10", "q11") EI_STORE("64", "q12", "q13", "q14", "q15")
#define EI_STORE2 EI_STORE1 EI_STORE("128", "q16", "q17", "q18", "q19") EI_STORE("192", "q20", "q21", "q22", "q23")
#define EI_STORE3 EI_STORE2 EI_STORE("256", "q24", "q25", "q26", "q27") EI_STORE("320", "q28", "q29", "q30", "q31")
#define EI_WEIGH(zero, take, store)                                                                          \
  asm volatile(zero                                                                                          \
      "1:\n\t"                                                                                               \
      EI_LINE("ldr q0, [%[weight]]") EI_LINE("ldr q1, [%[weight], %[second]]") EI_LINE("ldr q2, [%[weight], %[third]]") \
      EI_LINE("add %[weight], %[weight], #16")                                                               \
      EI_KEY(take, "0", "0", "64")    EI_KEY(take, "1", "128", "192") EI_KEY(take, "2", "256", "320")        \
      EI_KEY(take, "3", "384", "448") EI_KEY(take, "4", "512", "576") EI_KEY(take, "5", "640", "704")        \
      EI_KEY(take, "6", "768", "832") EI_KEY(take, "7", "896", "960")                                        \
      EI_LINE("add %[ahead], %[ahead], #1024")                                                               \
      EI_LINE("subs %[eights], %[eights], #1")                                                               \
      EI_LINE("b.ne 1b")                                                                                     \
      store                                                                                                  \
      : [weight] "+r"(weight), [values] "+r"(values), [ahead] "+r"(ahead), [eights] "+r"(eights)             \
      : [step] "r"(step), [to] "r"(to), [second] "r"(kRows > 1 ? 2 * kWeighKeys : 0), [third] "r"(kRows > 2 ? 4 * kWeighKeys : 0) \
      : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", \
        "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31")
  if constexpr (kRows == 1) EI_WEIGH(EI_ZERO1, EI_TAKE1, EI_STORE1);
  if constexpr (kRows == 2) EI_WEIGH(EI_ZERO2, EI_TAKE2, EI_STORE2);
  if constexpr (kRows == 3) EI_WEIGH(EI_ZERO3, EI_TAKE3, EI_STORE3);
#undef EI_WEIGH
#undef EI_STORE3
#undef EI_STORE2
#undef EI_STORE1
#undef EI_STORE
#undef EI_KEY
#undef EI_TAKE3
#undef EI_TAKE2
#undef EI_TAKE1
#undef EI_ZERO3
#undef EI_ZERO2
#undef EI_ZERO1
#undef EI_ZERO4
#undef EI_LINE
  // clang-format on
}

}  // namespace
}  // namespace ei::kernels
