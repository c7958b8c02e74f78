// The online softmax of sixteen rows side by side: scores [key, row] in fp32 become weights in half precision. Unnamed
// namespace: see flash.h.
#pragma once

#include <arm_neon.h>

#include <cmath>
#include <cstdint>

#include "kernels/attention/cpu/flash.h"
#include "kernels/simd/neon.h"

namespace ei::kernels {
namespace {

inline constexpr int kLaneRows = 16;
inline constexpr int kLaneVectors = kLaneRows / 4;

class LaneSoftmax {
 public:
  // Scores of the keys [first, last) of a tile, less `max`; `max` and `sum` are those of RowBlock.
  LaneSoftmax(float* max, float* sum, const int32_t* begin, const int32_t* end, float* s, int first, int last)
      : max_(max), sum_(sum), begin_(begin), end_(end), s_(s), first_(first), last_(last) {}

  // Keys that a row does not see get no score.
  void mask() {
    for (int key = first_; key < last_; ++key) {
      for (int v = 0; v < kLaneVectors; ++v) {
        float* at = s_ + key * kLaneRows + 4 * v;
        vst1q_f32(at, vbslq_f32(visible(key, v), vld1q_f32(at), vdupq_n_f32(kNoScore)));
      }
    }
  }

  // Moves the maxima that must move; says whether any did.
  bool follow_maximum() {
    float32x4_t high[kLaneVectors];
    for (auto& lanes : high) lanes = vdupq_n_f32(kNoScore);
    for (int key = first_; key < last_; ++key) {
      for (int v = 0; v < kLaneVectors; ++v) high[v] = vmaxq_f32(high[v], vld1q_f32(s_ + key * kLaneRows + 4 * v));
    }
    uint32x4_t any = vdupq_n_u32(0);
    for (int v = 0; v < kLaneVectors; ++v) {
      const float32x4_t max = vld1q_f32(max_ + 4 * v);
      const uint32x4_t none = vceqq_f32(max, vdupq_n_f32(kNoScore));
      const uint32x4_t first_seen = vandq_u32(none, vcgtq_f32(high[v], vdupq_n_f32(kNoScore)));
      const uint32x4_t moves = vorrq_u32(first_seen, vcgtq_f32(high[v], vdupq_n_f32(kFollow)));
      const float32x4_t by = vaddq_f32(high[v], vdupq_n_f32(kAbove));
      shift_[v] = vreinterpretq_f32_u32(vandq_u32(moves, vreinterpretq_u32_f32(by)));
      vst1q_f32(max_ + 4 * v, vaddq_f32(vbslq_f32(first_seen, vdupq_n_f32(0), max), shift_[v]));
      any = vorrq_u32(any, moves);
    }
    return vmaxvq_u32(any) != 0;
  }

  // Brings scores, sums and outputs [dim, row] to the moved maxima.
  void rescale(float* out, int dim) {
    for (int key = first_; key < last_; ++key) {
      for (int v = 0; v < kLaneVectors; ++v) {
        float* at = s_ + key * kLaneRows + 4 * v;
        vst1q_f32(at, vsubq_f32(vld1q_f32(at), shift_[v]));
      }
    }
    // The first maximum of a row may be of either sign, and has nothing to correct.
    float32x4_t correction[kLaneVectors];
    for (int v = 0; v < kLaneVectors; ++v) {
      correction[v] = Exp2::of(vminq_f32(vnegq_f32(shift_[v]), vdupq_n_f32(0)));
      vst1q_f32(sum_ + 4 * v, vmulq_f32(vld1q_f32(sum_ + 4 * v), correction[v]));
    }
    for (int d = 0; d < dim; ++d) {
      for (int v = 0; v < kLaneVectors; ++v) {
        float* at = out + d * kLaneRows + 4 * v;
        vst1q_f32(at, vmulq_f32(vld1q_f32(at), correction[v]));
      }
    }
  }

  // Writes weights [key, row] and adds them to the sums; returns the largest sum of one row over these keys.
  template <bool kMasked>
  float weigh(float16_t* p) {
    float32x4_t sums[kLaneVectors];
    for (auto& lanes : sums) lanes = vdupq_n_f32(0);
    // Two keys go through every step together: the chain of one alone is longer than the CPU looks ahead.
    constexpr int kTogether = 2 * kLaneVectors;
    for (int key = first_; key < last_; key += 2) {
      float32x4_t weight[kTogether];
      for (int i = 0; i < kTogether; ++i) weight[i] = vld1q_f32(s_ + key * kLaneRows + 4 * i);
      exp2_together(weight);
      for (int i = 0; i < kTogether; ++i) {
        if constexpr (kMasked)
          weight[i] = vreinterpretq_f32_u32(
              vandq_u32(vreinterpretq_u32_f32(weight[i]), visible(key + i / kLaneVectors, i % kLaneVectors)));
        sums[i % kLaneVectors] = vaddq_f32(sums[i % kLaneVectors], weight[i]);
      }
      for (int i = 0; i < kTogether; i += 2)
        vst1q_f16(p + key * kLaneRows + 4 * i, vcvt_high_f16_f32(vcvt_f16_f32(weight[i]), weight[i + 1]));
    }
    float32x4_t most = vdupq_n_f32(0);
    for (int v = 0; v < kLaneVectors; ++v) {
      vst1q_f32(sum_ + 4 * v, vaddq_f32(vld1q_f32(sum_ + 4 * v), sums[v]));
      most = vmaxq_f32(most, sums[v]);
    }
    return vmaxvq_f32(most);
  }

 private:
  // The maximum stands a little above the scores when it moves, and follows when they pass it by as much: weights,
  // which are 18.12 times a power of two, then lie between 4.5 and 72 at their largest, and half precision keeps eleven
  // bits of those down to 2^-16 of it.
  static constexpr float kAbove = 2;
  static constexpr float kFollow = 2;

  // RoughExp2 of eight vectors, step by step.
  static void exp2_together(float32x4_t (&x)[8]) {
    constexpr float kRoundToInt = 12582912.0f;
    float32x4_t shifted[8];
    float32x4_t square[8];
    for (auto& lanes : x) lanes = vmaxq_f32(lanes, vdupq_n_f32(-126.0f));
    for (int i = 0; i < 8; ++i) shifted[i] = vaddq_f32(x[i], vdupq_n_f32(kRoundToInt));
    for (int i = 0; i < 8; ++i) x[i] = vsubq_f32(x[i], vsubq_f32(shifted[i], vdupq_n_f32(kRoundToInt)));
    for (int i = 0; i < 8; ++i) square[i] = vmulq_f32(x[i], vaddq_f32(x[i], vdupq_n_f32(2.05904664824f)));
    for (int i = 0; i < 8; ++i) square[i] = vaddq_f32(square[i], vdupq_n_f32(7.75077505147f));
    for (int i = 0; i < 8; ++i) x[i] = vmulq_f32(vaddq_f32(x[i], vdupq_n_f32(2.33833904126f)), square[i]);
    for (int i = 0; i < 8; ++i) {
      const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(shifted[i]), 23);
      x[i] = vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(x[i]), exponent));
    }
  }

  uint32x4_t visible(int key, int v) const {
    const int32x4_t at = vdupq_n_s32(key);
    return vandq_u32(vcgeq_s32(at, vld1q_s32(begin_ + 4 * v)), vcltq_s32(at, vld1q_s32(end_ + 4 * v)));
  }

  float* max_;
  float* sum_;
  const int32_t* begin_;
  const int32_t* end_;
  float* s_;
  const int first_;
  const int last_;
  float32x4_t shift_[kLaneVectors];
};

}  // namespace
}  // namespace ei::kernels
