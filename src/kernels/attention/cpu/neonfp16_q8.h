// Elements of q8_0 as halves, for the variant that multiplies those. A code and a scale are halves; their product loses
// 2^-11 of itself, a tenth of what q8_0 has lost.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace ei::kernels {
namespace {

struct Q8ToHalves {
  static constexpr DType kType = DType::kF16;
  static void unpack(const void* from, int64_t count, void* to) {
    auto* halves = static_cast<float16_t*>(to);
    for (const auto* block = static_cast<const Q8Block*>(from); count > 0; ++block, count -= kQ8Elements) {
      const float16x8_t scale = vreinterpretq_f16_u16(vdupq_n_u16(block->scale));
      for (int half = 0; half < 2; ++half) {
        const int8x16_t codes = vld1q_s8(block->codes + 16 * half);
        vst1q_f16(halves, vmulq_f16(vcvtq_f16_s16(vmovl_s8(vget_low_s8(codes))), scale));
        vst1q_f16(halves + 8, vmulq_f16(vcvtq_f16_s16(vmovl_high_s8(codes)), scale));
        halves += 16;
      }
    }
  }
};

}  // namespace
}  // namespace ei::kernels
