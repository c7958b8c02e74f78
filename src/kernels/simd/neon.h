// NEON pieces shared by the ARM attention variants: exp2 and loads of any KV type as fp32. In an unnamed namespace on
// purpose: each variant file compiles its own copy with its own flags (see flash.h).
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "base/check.h"
#include "tensor/dtype.h"

namespace ei::kernels {
namespace {

// 2^n power(r), where x = n + r with |r| <= 1/2; x is at most a few and counts as -126 below that.
template <typename Power>
inline float32x4_t scaled_power(float32x4_t x, Power power) {
  constexpr float kRoundToInt = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded integer in the low bits
  x = vmaxq_f32(x, vdupq_n_f32(-126.0f));
  const float32x4_t shifted = vaddq_f32(x, vdupq_n_f32(kRoundToInt));
  const float32x4_t p = power(vsubq_f32(x, vsubq_f32(shifted, vdupq_n_f32(kRoundToInt))));
  const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23);
  return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p), exponent));
}

// 2^x by a minimax polynomial that is exactly 1 at 0, its relative error below fp32 rounding.
struct Exp2 {
  static float32x4_t of(float32x4_t x) {
    return scaled_power(x, [](float32x4_t r) {
      float32x4_t p = vfmaq_f32(vdupq_n_f32(0.00134066439024f), r, vdupq_n_f32(0.000155946781613f));
      p = vfmaq_f32(vdupq_n_f32(0.00961769297299f), r, p);
      p = vfmaq_f32(vdupq_n_f32(0.0555031055101f), r, p);
      p = vfmaq_f32(vdupq_n_f32(0.240226527829f), r, p);
      p = vfmaq_f32(vdupq_n_f32(0.693147214968f), r, p);
      return vfmaq_f32(vdupq_n_f32(1.0f), r, p);
    });
  }
};

// 18.12 * 2^x with a relative error of 7.5e-5, for weights that become bf16. Not fused: fused steps overwrite the
// constant that they add to, which then has to be copied first.
struct RoughExp2 {
  static float32x4_t of(float32x4_t x) {
    return scaled_power(x, [](float32x4_t r) {
      const float32x4_t square = vmulq_f32(r, vaddq_f32(r, vdupq_n_f32(2.05904664824f)));
      return vmulq_f32(vaddq_f32(r, vdupq_n_f32(2.33833904126f)), vaddq_f32(square, vdupq_n_f32(7.75077505147f)));
    });
  }
};

// s = Exp(s - max) over `count` scores; returns their sum. Four vectors go through together to hide their latency.
template <typename Exp>
inline float exp_sum_neon(float* s, int count, float max) {
  const float32x4_t highest = vdupq_n_f32(max);
  float32x4_t sum[4];
  for (auto& lanes : sum) lanes = vdupq_n_f32(0);
  int i = 0;
  for (; i + 16 <= count; i += 16) {
    float32x4_t p[4];
    for (int j = 0; j < 4; ++j) p[j] = Exp::of(vsubq_f32(vld1q_f32(s + i + 4 * j), highest));
    for (int j = 0; j < 4; ++j) {
      vst1q_f32(s + i + 4 * j, p[j]);
      sum[j] = vaddq_f32(sum[j], p[j]);
    }
  }
  float total = vaddvq_f32(vaddq_f32(vaddq_f32(sum[0], sum[1]), vaddq_f32(sum[2], sum[3])));
  for (; i < count; ++i) {
    s[i] = vgetq_lane_f32(Exp::of(vdupq_n_f32(s[i] - max)), 0);
    total += s[i];
  }
  return total;
}

// Eight consecutive elements of a K or V row.
template <DType kType>
inline float32x4x2_t load8(const void* row, int64_t index) {
  if constexpr (kType == DType::kF32) {
    const float* from = static_cast<const float*>(row) + index;
    return {{vld1q_f32(from), vld1q_f32(from + 4)}};
  } else {
    const uint16x8_t bits = vld1q_u16(static_cast<const uint16_t*>(row) + index);
    if constexpr (kType == DType::kF16) {
      return {{vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(bits))),
               vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(bits)))}};
    } else {
      return {{vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)),
               vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(bits), 16))}};
    }
  }
}

template <DType kValue>
struct TypeTag {
  static constexpr DType kType = kValue;
};
// Run-time element type -> compile time.
template <typename Use>
inline void with_type(DType type, Use use) {
  switch (type) {
    case DType::kF32: return use(TypeTag<DType::kF32>{});
    case DType::kF16: return use(TypeTag<DType::kF16>{});
    case DType::kBF16: return use(TypeTag<DType::kBF16>{});
    case DType::kQ8_0:
    case DType::kF8: EI_CHECK(type == DType::kF32);  // unpacked before (attention/cpu/flash.h); a GPU's
  }
}

}  // namespace
}  // namespace ei::kernels
