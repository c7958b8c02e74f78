// NEON pieces shared by the ARM attention variants: exp2 and loads of any KV type as fp32. In an unnamed namespace on
// purpose: each variant file compiles its own copy with its own flags (see flash.h).
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace ei::kernels {
namespace {

// 2^x for x <= 0 (and never below 2^-126): x = n + r with |r| <= 1/2, 2^r by a minimax polynomial that is exactly 1 at
// 0, n added to the exponent. Relative error 4.3e-4 (degree 3), 3.6e-6 (degree 4), below fp32 rounding (degree 6).
template <int kDegree>
inline float32x4_t exp2_neon(float32x4_t x) {
  static_assert(kDegree == 3 || kDegree == 4 || kDegree == 6);
  constexpr float kRoundToInt = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded integer in the low bits
  x = vmaxq_f32(x, vdupq_n_f32(-126.0f));
  const float32x4_t shifted = vaddq_f32(x, vdupq_n_f32(kRoundToInt));
  const float32x4_t r = vsubq_f32(x, vsubq_f32(shifted, vdupq_n_f32(kRoundToInt)));
  float32x4_t p;
  if constexpr (kDegree == 3) {
    p = vfmaq_f32(vdupq_n_f32(0.242030511922f), r, vdupq_n_f32(0.0416987492099f));
    p = vfmaq_f32(vdupq_n_f32(0.695766831088f), r, p);
  } else if constexpr (kDegree == 4) {
    p = vfmaq_f32(vdupq_n_f32(0.0559768836305f), r, vdupq_n_f32(0.00978291263782f));
    p = vfmaq_f32(vdupq_n_f32(0.240207110766f), r, p);
    p = vfmaq_f32(vdupq_n_f32(0.693113604403f), r, p);
  } else {
    p = vfmaq_f32(vdupq_n_f32(0.00134066439024f), r, vdupq_n_f32(0.000155946781613f));
    p = vfmaq_f32(vdupq_n_f32(0.00961769297299f), r, p);
    p = vfmaq_f32(vdupq_n_f32(0.0555031055101f), r, p);
    p = vfmaq_f32(vdupq_n_f32(0.240226527829f), r, p);
    p = vfmaq_f32(vdupq_n_f32(0.693147214968f), r, p);
  }
  p = vfmaq_f32(vdupq_n_f32(1.0f), r, p);
  const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23);
  return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p), exponent));
}

// s = 2^(s - max) over `count` scores; returns their sum. Four vectors go through together to hide their latency.
template <int kDegree>
inline float exp_sum_neon(float* s, int count, float max) {
  const float32x4_t highest = vdupq_n_f32(max);
  float32x4_t sum[4];
  for (auto& lanes : sum) lanes = vdupq_n_f32(0);
  int i = 0;
  for (; i + 16 <= count; i += 16) {
    float32x4_t p[4];
    for (int j = 0; j < 4; ++j) p[j] = exp2_neon<kDegree>(vsubq_f32(vld1q_f32(s + i + 4 * j), highest));
    for (int j = 0; j < 4; ++j) {
      vst1q_f32(s + i + 4 * j, p[j]);
      sum[j] = vaddq_f32(sum[j], p[j]);
    }
  }
  float total = vaddvq_f32(vaddq_f32(vaddq_f32(sum[0], sum[1]), vaddq_f32(sum[2], sum[3])));
  for (; i < count; ++i) {
    s[i] = vgetq_lane_f32(exp2_neon<kDegree>(vdupq_n_f32(s[i] - max)), 0);
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
  }
}

}  // namespace
}  // namespace ei::kernels
