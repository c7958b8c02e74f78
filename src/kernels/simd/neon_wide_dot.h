// Dot products of sixteen-bit integers on ARM CPUs that multiply bytes (SDOT): x = 256 high + low, both signed bytes.
// Of the four products of two such numbers low * low is left out, below what a rounding to half precision loses; sums
// are exact. Per product 3/16 of an instruction, where fp32 needs a quarter. Unnamed namespace: see
// attention/cpu/flash.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace ei::kernels {
namespace {

inline constexpr int kWideRows = 8;  // in a panel: [dim / 4, high then low, row, 4 dims]
inline constexpr float kWideLargest = 32512;

// Eight elements of a row from dim `d` on, a multiple of eight; they are at most kWideLargest.
inline void store_wide(float32x4_t first, float32x4_t second, int row, int d, int8_t* panel) {
  const int16x8_t whole = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(first)), vmovn_s32(vcvtnq_s32_f32(second)));
  const uint32x2_t high = vreinterpret_u32_s8(vrshrn_n_s16(whole, 8));
  const uint32x2_t low = vreinterpret_u32_s8(vmovn_s16(whole));
  auto* to = reinterpret_cast<uint32_t*>(panel) + d / 4 * 2 * kWideRows + row;
  vst1_lane_u32(to, high, 0);
  vst1_lane_u32(to + kWideRows, low, 0);
  vst1_lane_u32(to + 2 * kWideRows, high, 1);
  vst1_lane_u32(to + 3 * kWideRows, low, 1);
}

struct WideSums {
  int32x4_t at[kWideRows][2];  // [row of a, four rows of b]
};

// The products of two panels, divided by 256; dim is a multiple of four, at most 256, or they would overflow. Written
// out because compilers put two sums into the same register one behind the other, and wait.
inline __attribute__((always_inline)) WideSums multiply_wide(const int8_t* a, const int8_t* b, int dim) {
  WideSums sums;
  int64_t steps = dim / 4;
  int64_t again = steps;
  const int8_t* first_a = a;
  const int8_t* first_b = b;
  // clang-format off
#define EI_LINE(text) text "\n\t"
#define EI_ROW(i, row, from, lane)                                                                             \
  EI_LINE("sdot %[l" #i "].4s, " row "0.16b, " from ".4b[" #lane "]") EI_LINE("sdot %[h" #i "].4s, " row "1.16b, " from ".4b[" #lane "]")
#define EI_ROWS(row, from)                                                                                         \
  EI_ROW(0, row, from "0", 0) EI_ROW(1, row, from "0", 1) EI_ROW(2, row, from "0", 2)                  \
  EI_ROW(3, row, from "0", 3) EI_ROW(4, row, from "1", 0) EI_ROW(5, row, from "1", 1)                  \
  EI_ROW(6, row, from "1", 2) EI_ROW(7, row, from "1", 3)
#define EI_EACH(op, end)                                                                                           \
  EI_LINE(op "l0].4s" end("l0")) EI_LINE(op "h0].4s" end("h0")) EI_LINE(op "l1].4s" end("l1")) EI_LINE(op "h1].4s" end("h1")) \
  EI_LINE(op "l2].4s" end("l2")) EI_LINE(op "h2].4s" end("h2")) EI_LINE(op "l3].4s" end("l3")) EI_LINE(op "h3].4s" end("h3")) \
  EI_LINE(op "l4].4s" end("l4")) EI_LINE(op "h4].4s" end("h4")) EI_LINE(op "l5].4s" end("l5")) EI_LINE(op "h5].4s" end("h5")) \
  EI_LINE(op "l6].4s" end("l6")) EI_LINE(op "h6].4s" end("h6")) EI_LINE(op "l7].4s" end("l7")) EI_LINE(op "h7].4s" end("h7"))
#define EI_ZERO(name) ", #0"
#define EI_TIMES_256(name) ", %[" name "].4s, #8"
  asm volatile(
      EI_EACH("movi %[", EI_ZERO)
      "1:\n\t"
      EI_LINE("ldp q20, q21, [%[a]], #64") EI_LINE("ldp q30, q31, [%[b]], #64")
      EI_ROWS("v3", "v2")
      EI_LINE("subs %[steps], %[steps], #1")
      EI_LINE("b.ne 1b")
      EI_EACH("shl %[", EI_TIMES_256)
      "2:\n\t"
      EI_LINE("ldp q20, q21, [%[first_a], #32]") EI_LINE("ldp q30, q31, [%[first_b]]")
      EI_ROWS("v3", "v2")
      EI_LINE("ldp q20, q21, [%[first_a]], #64") EI_LINE("ldp q30, q31, [%[first_b], #32]")
      EI_LINE("add %[first_b], %[first_b], #64")
      EI_ROWS("v3", "v2")
      EI_LINE("subs %[again], %[again], #1")
      EI_LINE("b.ne 2b")
      : [l0] "=&w"(sums.at[0][0]), [h0] "=&w"(sums.at[0][1]), [l1] "=&w"(sums.at[1][0]), [h1] "=&w"(sums.at[1][1]),
        [l2] "=&w"(sums.at[2][0]), [h2] "=&w"(sums.at[2][1]), [l3] "=&w"(sums.at[3][0]), [h3] "=&w"(sums.at[3][1]),
        [l4] "=&w"(sums.at[4][0]), [h4] "=&w"(sums.at[4][1]), [l5] "=&w"(sums.at[5][0]), [h5] "=&w"(sums.at[5][1]),
        [l6] "=&w"(sums.at[6][0]), [h6] "=&w"(sums.at[6][1]), [l7] "=&w"(sums.at[7][0]), [h7] "=&w"(sums.at[7][1]),
        [a] "+r"(a), [b] "+r"(b), [steps] "+r"(steps), [first_a] "+r"(first_a), [first_b] "+r"(first_b), [again] "+r"(again)
      :
      : "memory", "cc", "v20", "v21", "v30", "v31");
#undef EI_TIMES_256
#undef EI_ZERO
#undef EI_EACH
#undef EI_ROWS
#undef EI_ROW
#undef EI_LINE
  // clang-format on
  return sums;
}

}  // namespace
}  // namespace ei::kernels
