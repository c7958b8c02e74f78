// Four floats in a NEON register. VecEmulated (vec_emulated.h) says what each member means; only those that the loops
// over vectors use on ARM are here.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/simd/neon.h"
#include "tensor/dtype.h"

namespace ei::kernels {
namespace {

struct Vec4 {
  static constexpr int kWidth = 4;
  float32x4_t v;

  static Vec4 zero() { return {vdupq_n_f32(0)}; }
  static Vec4 set1(float value) { return {vdupq_n_f32(value)}; }
  static Vec4 load(const float* from) { return {vld1q_f32(from)}; }
  // Rows of K and V are multiples of eight elements, so `count` is always four.
  static Vec4 load_typed(const void* from, DType type, int64_t at, int /*count*/) {
    if (type == DType::kF32) return load(static_cast<const float*>(from) + at);
    const uint16x4_t bits = vld1_u16(static_cast<const uint16_t*>(from) + at);
    if (type == DType::kF16) return {vcvt_f32_f16(vreinterpret_f16_u16(bits))};
    return {vreinterpretq_f32_u32(vshll_n_u16(bits, 16))};
  }
  void store(float* to) const { vst1q_f32(to, v); }
  void store_first(float* to, int /*count*/) const { store(to); }

  friend Vec4 operator+(Vec4 a, Vec4 b) { return {vaddq_f32(a.v, b.v)}; }
  friend Vec4 operator-(Vec4 a, Vec4 b) { return {vsubq_f32(a.v, b.v)}; }
  friend Vec4 operator*(Vec4 a, Vec4 b) { return {vmulq_f32(a.v, b.v)}; }
  static Vec4 fma(Vec4 a, Vec4 b, Vec4 c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
  static Vec4 max(Vec4 a, Vec4 b) { return {vmaxq_f32(a.v, b.v)}; }
  float sum() const { return vaddvq_f32(v); }
  // The exponent goes straight into the float's bits; below the range of normal numbers the result is zero.
  static Vec4 scale_by_power(Vec4 value, Vec4 exponent) {
    const uint32x4_t tiny = vcltq_f32(exponent.v, vdupq_n_f32(-126));
    const int32x4_t shifted = vshlq_n_s32(vcvtq_s32_f32(exponent.v), 23);
    const int32x4_t bits = vaddq_s32(vreinterpretq_s32_f32(value.v), shifted);
    return {vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_s32(bits), tiny))};
  }
};

}  // namespace
}  // namespace ei::kernels
