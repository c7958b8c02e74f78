// Small vector steps of the peak scores: rounding to 8 bits, the online normaliser in base 2, the largest gap. Unnamed
// namespace: see flash.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/simd/wide.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace ei::kernels {

inline constexpr int kPanelKeys = 8;
inline constexpr int kTileRows = 32;

namespace {

using Four = Lanes;

inline Four load(const float* from) { return four_at(from); }
inline void store(float* to, const Four& v) { std::memcpy(to, &v, sizeof v); }

// Neighbouring rows of a tile: as many as a register holds. What a row gets does not depend on that.
#if defined(__AVX512F__)
typedef float RowVec __attribute__((vector_size(64), aligned(4)));
inline RowVec larger(const RowVec& a, const RowVec& b) { return _mm512_max_ps(b, a); }
inline RowVec multiply_add(const RowVec& a, const RowVec& b, const RowVec& c) { return _mm512_fmadd_ps(a, b, c); }
inline float largest_of(const RowVec& rows) { return _mm512_reduce_max_ps(rows); }
#else
using RowVec = Four;
inline float largest_of(const RowVec& rows) { return std::max(std::max(rows[0], rows[1]), std::max(rows[2], rows[3])); }
#endif
inline constexpr int kRowLanes = sizeof(RowVec) / sizeof(float);
inline RowVec load_rows(const float* from) {
  RowVec rows;
  std::memcpy(&rows, from, sizeof rows);
  return rows;
}
inline void store_rows(float* to, const RowVec& rows) { std::memcpy(to, &rows, sizeof rows); }

// 2^x for x <= 0, relative error below 1e-3: more than a ranking needs.
template <typename Vector>
inline Vector exp2_low(Vector x) {
  typedef int32_t Bits __attribute__((vector_size(sizeof(Vector))));
  x = larger(x, Vector{} - 126.0f);
  const Vector shifted = x + 12582912.0f;  // 1.5 * 2^23: the rounded integer is left in the low bits
  const Vector r = x - (shifted - 12582912.0f);
  const Vector poly = ((0.0558f * r + 0.24022f) * r + 0.69314f) * r + 1.0f;
  return reinterpret_cast<Vector>((reinterpret_cast<Bits>(shifted) << 23) + reinterpret_cast<Bits>(poly));
}

// Adding 1.5 * 2^23 leaves the rounded integer in the low bits.
inline constexpr float kRoundingShift = 12582912.0f;

// Eight elements, `inverse` units each, to 8 bits.
inline void round_eight(const Eight& values, float inverse, int8_t* to) {
  [[maybe_unused]] const Four low = values.low * inverse + kRoundingShift;
  [[maybe_unused]] const Four high = values.high * inverse + kRoundingShift;
#if defined(__aarch64__)
  const int16x8_t halves = vuzp1q_s16(vreinterpretq_s16_f32(low), vreinterpretq_s16_f32(high));
  vst1_s8(to, vmovn_s16(halves));
#elif defined(__AVX512VL__)
  const __m256 both = _mm256_set_m128(values.high, values.low) * inverse;
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm256_cvtepi32_epi8(_mm256_cvtps_epi32(both)));
#else
  int32_t rounded[8];
  std::memcpy(rounded, &low, sizeof low);
  std::memcpy(rounded + 4, &high, sizeof high);
  for (int k = 0; k < 8; ++k) to[k] = static_cast<int8_t>(rounded[k]);
#endif
}

// Rows of 8 bits share one scale: the largest element becomes 127. Gives what one unit is worth.
inline float quantise(const float* values, int64_t count, int8_t* to) {
  // Magnitudes order like the integers of their bits, and compilers vectorise a maximum of integers.
  int32_t bits = 0;
  for (int64_t k = 0; k < count; ++k) {
    int32_t magnitude;
    std::memcpy(&magnitude, values + k, sizeof magnitude);
    bits = std::max(bits, magnitude & 0x7fffffff);
  }
  float largest;
  std::memcpy(&largest, &bits, sizeof largest);
  const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
  for (int64_t k = 0; k < count; ++k) {
    const float shifted = values[k] * inverse + kRoundingShift;
    int32_t rounded;
    std::memcpy(&rounded, &shifted, sizeof rounded);
    to[k] = static_cast<int8_t>(rounded);
  }
  return largest / 127.0f;
}

// Folds `count` rows of kTileRows logits into the normaliser: a point of reference, and the sum of 2^(x - reference).
// A term may be 3 % off, on the average none is (a straight line between two powers of two): more than a ranking needs.
// The point moves only when the terms outgrow it.
// `none` in max: nothing has been folded yet.
inline void fold(const float* logits, int64_t count, float none, float* max, float* sum) {
  typedef int32_t Bits __attribute__((vector_size(sizeof(RowVec))));
  constexpr float kUnit = 8388608.0f;      // 2^23: one step of an exponent
  constexpr float kBias = 127 - 0.05617f;  // of floats, less what lines lie above the curve on the average
  constexpr float kRoom = 60;
  constexpr int kTogether = 16 / kRowLanes;
  for (int r = 0; r < kTileRows; r += 16) {
    RowVec from[kTogether];
    RowVec high[kTogether];
    RowVec total[kTogether];
    const auto at = [&](int v) { return r + kRowLanes * v; };
    const auto logits_of = [&](int64_t j, int v) { return load_rows(logits + j * kTileRows + at(v)); };
    // The first call finds its point.
    for (int v = 0; v < kTogether && max[r] == none; ++v) {
      RowVec first = logits_of(0, v);
      for (int64_t j = 1; j < count; ++j) first = larger(first, logits_of(j, v));
      store_rows(max + at(v), first);
    }
    for (int v = 0; v < kTogether; ++v) {
      high[v] = load_rows(max + at(v));
      from[v] = (kBias - high[v]) * kUnit;
      total[v] = load_rows(sum + at(v));
    }
    for (int64_t j = 0; j < count; ++j) {
      for (int v = 0; v < kTogether; ++v) {
        const RowVec x = logits_of(j, v);
        high[v] = larger(high[v], x);
        const RowVec bits = larger(multiply_add(x, RowVec{} + kUnit, from[v]), RowVec{});
        total[v] += reinterpret_cast<RowVec>(__builtin_convertvector(bits, Bits));
      }
    }
    float grown = 0;
    for (int v = 0; v < kTogether; ++v) grown = std::max(grown, largest_of(high[v] - load_rows(max + at(v))));
    if (grown > kRoom) {
      // Rare: from new reference points, once more.
      for (int v = 0; v < kTogether; ++v) {
        total[v] = load_rows(sum + at(v)) * exp2_low(load_rows(max + at(v)) - high[v]);
        store_rows(max + at(v), high[v]);
      }
      for (int64_t j = 0; j < count; ++j)
        for (int v = 0; v < kTogether; ++v) total[v] += exp2_low(logits_of(j, v) - high[v]);
    }
    for (int v = 0; v < kTogether; ++v) store_rows(sum + at(v), total[v]);
  }
}

// max over kTileRows rows of x - z
inline float largest_gap(const float* x, const float* z) {
  RowVec most[2] = {load_rows(x) - load_rows(z), load_rows(x + kRowLanes) - load_rows(z + kRowLanes)};
  for (int r = 2 * kRowLanes; r < kTileRows; r += 2 * kRowLanes)
    for (int v = 0; v < 2; ++v)
      most[v] = larger(most[v], load_rows(x + r + v * kRowLanes) - load_rows(z + r + v * kRowLanes));
  return largest_of(larger(most[0], most[1]));
}

}  // namespace
}  // namespace ei::kernels
