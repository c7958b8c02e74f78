// Elements of q8_0 as floats, for kernels that multiply those. In an unnamed namespace on purpose: each variant file
// compiles its own copy with its own flags (see attention/cpu/flash.h).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace ei::kernels {
namespace {

inline void unpack_q8(const void* from, int64_t count, float* to) {
  for (const auto* block = static_cast<const Q8Block*>(from); count > 0; ++block, count -= kQ8Elements) {
    const float scale = f16_to_f32(block->scale);
    for (int64_t i = 0; i < kQ8Elements; ++i) *to++ = scale * static_cast<float>(block->codes[i]);
  }
}

struct Q8ToFloats {
  static constexpr DType kType = DType::kF32;
  static void unpack(const void* from, int64_t count, void* to) { unpack_q8(from, count, static_cast<float*>(to)); }
};

}  // namespace
}  // namespace ei::kernels
