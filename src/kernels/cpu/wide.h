// Eight floats at a time, in the compiler's portable vectors: for loops that are worth vectorising but not an ISA file
// of their own. Sums have a fixed order on every machine.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

namespace ei::kernels {
namespace {

typedef float Wide __attribute__((vector_size(32), aligned(4)));

inline float horizontal_sum(const Wide& v) { return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7])); }

// dim is a multiple of 8.
inline float dot(const float* a, const float* b, int64_t dim) {
  Wide sum = {};
  for (int64_t d = 0; d < dim; d += 8) {
    Wide x;
    Wide y;
    std::memcpy(&x, a + d, sizeof x);
    std::memcpy(&y, b + d, sizeof y);
    sum += x * y;
  }
  return horizontal_sum(sum);
}

inline void load_row(const void* from, DType type, int64_t count, float* to) {
  if (type == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  } else if (type == DType::kBF16) {
    const auto* bits = static_cast<const uint16_t*>(from);
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t wide = uint32_t{bits[i]} << 16;
      std::memcpy(to + i, &wide, sizeof wide);
    }
  } else {
    const auto* bits = static_cast<const uint16_t*>(from);
#if defined(__aarch64__)
    __fp16 half;
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(&half, bits + i, sizeof half);
      to[i] = static_cast<float>(half);
    }
#else
    for (int64_t i = 0; i < count; ++i) to[i] = f16_to_f32(bits[i]);
#endif
  }
}

}  // namespace
}  // namespace ei::kernels
