// Floats in the compiler's portable vectors: for loops that are worth vectorising but not an ISA file of their own.
// Sums have a fixed order on every machine.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__F16C__)
#include <immintrin.h>
#endif

#include "kernels/simd/q8_rows.h"
#include "tensor/dtype.h"

namespace ei::kernels {
namespace {

// Sixteen bytes: what every CPU of both architectures has in one register.
typedef float Lanes __attribute__((vector_size(16), aligned(4)));

// Elements of two vectors by their numbers, those of `b` behind those of `a`.
#if defined(__clang__) || __GNUC__ >= 12
template <int... kIndices, typename Vector>
inline Vector pick(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, kIndices...);
}
#else  // g++ 11 knows the older form only
template <int... kIndices, typename Vector>
inline Vector pick(Vector a, Vector b) {
  using Index = std::conditional_t<sizeof(a[0]) == 2, int16_t, int32_t>;
  typedef Index Indices __attribute__((vector_size(16)));
  return __builtin_shuffle(a, b, Indices{kIndices...});
}
#endif

inline Lanes four_at(const float* from) {
  Lanes v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

struct Eight {
  Lanes low;
  Lanes high;
};
inline Eight eight_at(const float* from) { return {four_at(from), four_at(from + 4)}; }
inline Eight eight_at(const uint16_t* from) {  // bf16: the upper half of a float
  typedef uint16_t Halves __attribute__((vector_size(16)));
  Halves bits;
  std::memcpy(&bits, from, sizeof bits);
  return {reinterpret_cast<Lanes>(pick<0, 8, 1, 9, 2, 10, 3, 11>(Halves{}, bits)),
          reinterpret_cast<Lanes>(pick<4, 12, 5, 13, 6, 14, 7, 15>(Halves{}, bits))};
}

#if defined(__aarch64__)
#define EI_WIDENS_HALVES 1
inline Eight eight_halves_at(const uint16_t* from) {  // f16
  const float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(from));
  return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
}
#elif defined(__F16C__)
#define EI_WIDENS_HALVES 1
inline Eight eight_halves_at(const uint16_t* from) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return {_mm_cvtph_ps(halves), _mm_cvtph_ps(_mm_unpackhi_epi64(halves, halves))};
}
#endif

#if defined(__aarch64__)  // one instruction each; written out, the compiler must mind NaN
inline Lanes larger(const Lanes& a, const Lanes& b) { return vmaxnmq_f32(a, b); }
inline Lanes smaller(const Lanes& a, const Lanes& b) { return vminnmq_f32(a, b); }
inline Lanes multiply_add(const Lanes& a, const Lanes& b, const Lanes& c) { return vfmaq_f32(c, a, b); }
#else
inline Lanes larger(const Lanes& a, const Lanes& b) { return b > a ? b : a; }
inline Lanes smaller(const Lanes& a, const Lanes& b) { return b < a ? b : a; }
inline Lanes multiply_add(const Lanes& a, const Lanes& b, const Lanes& c) { return a * b + c; }
#endif

// dim is a multiple of 8.
inline float dot(const float* a, const float* b, int64_t dim) {
  Lanes even = {};
  Lanes odd = {};
  for (int64_t d = 0; d < dim; d += 8) {
    even += four_at(a + d) * four_at(b + d);
    odd += four_at(a + d + 4) * four_at(b + d + 4);
  }
  const Lanes sum = even + odd;
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// out[i]: row i of a [kRows, dim] by four rows of b. dim is a multiple of 8.
template <int kRows, typename Element>
inline void four_dots(const float* a, const Element* const b[4], int64_t dim, Lanes* out) {
  Lanes sums[kRows][4] = {};
  for (int64_t d = 0; d < dim; d += 8) {
    Eight y[4];
    for (int j = 0; j < 4; ++j) y[j] = eight_at(b[j] + d);
    for (int i = 0; i < kRows; ++i) {
      const Eight x = eight_at(a + i * dim + d);
      for (int j = 0; j < 4; ++j) sums[i][j] = multiply_add(x.low, y[j].low, sums[i][j]);
      for (int j = 0; j < 4; ++j) sums[i][j] = multiply_add(x.high, y[j].high, sums[i][j]);
    }
  }
  // Pairs of neighbours, twice.
  const auto add_pairs = [](const Lanes& v, const Lanes& w) { return pick<0, 2, 4, 6>(v, w) + pick<1, 3, 5, 7>(v, w); };
  for (int i = 0; i < kRows; ++i)
    out[i] = add_pairs(add_pairs(sums[i][0], sums[i][1]), add_pairs(sums[i][2], sums[i][3]));
}

// max and min of `count` (a multiple of 4) elements so far; the first row begins them.
inline void keep_extremes(const float* row, int64_t count, bool first, float* max, float* min) {
  if (first) {
    std::memcpy(max, row, static_cast<size_t>(count) * sizeof(float));
    std::memcpy(min, row, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; i += 4) {
    const Lanes x = four_at(row + i);
    const Lanes high = larger(four_at(max + i), x);
    const Lanes low = smaller(four_at(min + i), x);
    std::memcpy(max + i, &high, sizeof high);
    std::memcpy(min + i, &low, sizeof low);
  }
}

// The same of `rows` rows; the first begins them. Four at a time: max and min are read and written once for all four.
inline void find_extremes(const float* row, int64_t stride, int64_t rows, int64_t count, float* max, float* min) {
  keep_extremes(row, count, true, max, min);
  int64_t r = 1;
  for (; r + 4 <= rows; r += 4) {
    const float* x = row + r * stride;
    for (int64_t i = 0; i < count; i += 4) {
      const Lanes a = four_at(x + i);
      const Lanes b = four_at(x + stride + i);
      const Lanes c = four_at(x + 2 * stride + i);
      const Lanes d = four_at(x + 3 * stride + i);
      const Lanes high = larger(four_at(max + i), larger(larger(a, b), larger(c, d)));
      const Lanes low = smaller(four_at(min + i), smaller(smaller(a, b), smaller(c, d)));
      std::memcpy(max + i, &high, sizeof high);
      std::memcpy(min + i, &low, sizeof low);
    }
  }
  for (; r < rows; ++r) keep_extremes(row + r * stride, count, false, max, min);
}

inline void load_row(const void* from, DType type, int64_t count, float* to) {
  if (type == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  } else if (type == DType::kQ8_0) {
    unpack_q8(from, count, to);
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
    int64_t i = 0;
#if defined(EI_WIDENS_HALVES)
    for (; i + 8 <= count; i += 8) {
      const Eight eight = eight_halves_at(bits + i);
      std::memcpy(to + i, &eight, sizeof eight);
    }
#endif
    for (; i < count; ++i) to[i] = f16_to_f32(bits[i]);
#endif
  }
}

}  // namespace
}  // namespace ei::kernels
