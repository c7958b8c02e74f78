// Floats in the compiler's portable vectors: for loops that are worth vectorising but not an ISA file of their own.
// Sums have a fixed order on every machine.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

namespace ei::kernels {
namespace {

// Sixteen bytes: what every CPU of both architectures has in one register.
typedef float Lanes __attribute__((vector_size(16), aligned(4)));

// dim is a multiple of 8.
inline float dot(const float* a, const float* b, int64_t dim) {
  Lanes even = {};
  Lanes odd = {};
  for (int64_t d = 0; d < dim; d += 8) {
    Lanes x[2];
    Lanes y[2];
    std::memcpy(x, a + d, sizeof x);
    std::memcpy(y, b + d, sizeof y);
    even += x[0] * y[0];
    odd += x[1] * y[1];
  }
  const Lanes sum = even + odd;
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// a by four rows of b, dim elements each.
inline Lanes four_dots(const float* a, const float* b, int64_t dim) {
  Lanes sums[4] = {};
  for (int64_t d = 0; d < dim; d += 4) {
    Lanes x;
    std::memcpy(&x, a + d, sizeof x);
    for (int64_t row = 0; row < 4; ++row) {
      Lanes y;
      std::memcpy(&y, b + row * dim + d, sizeof y);
      sums[row] += x * y;
    }
  }
  // Pairs of neighbours, twice.
  const auto add_pairs = [](const Lanes& v, const Lanes& w) {
    return __builtin_shufflevector(v, w, 0, 2, 4, 6) + __builtin_shufflevector(v, w, 1, 3, 5, 7);
  };
  return add_pairs(add_pairs(sums[0], sums[1]), add_pairs(sums[2], sums[3]));
}

// max and min of `count` (a multiple of 4) elements so far; the first row begins them.
inline void keep_extremes(const float* row, int64_t count, bool first, float* max, float* min) {
  if (first) {
    std::memcpy(max, row, static_cast<size_t>(count) * sizeof(float));
    std::memcpy(min, row, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; i += 4) {
    Lanes x;
    Lanes high;
    Lanes low;
    std::memcpy(&x, row + i, sizeof x);
    std::memcpy(&high, max + i, sizeof high);
    std::memcpy(&low, min + i, sizeof low);
    high = x > high ? x : high;
    low = x < low ? x : low;
    std::memcpy(max + i, &high, sizeof high);
    std::memcpy(min + i, &low, sizeof low);
  }
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
