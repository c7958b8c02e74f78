// Eight floats in an AVX register. Included only by files compiled with -mavx2 -mfma -mf16c. VecEmulated
// (vec_emulated.h) says what each member means.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace ei::kernels {
namespace {

struct Vec8 {
  static constexpr int kWidth = 8;
  struct Mask {
    __m256 lanes;
    friend Mask operator&(Mask a, Mask b) { return {_mm256_and_ps(a.lanes, b.lanes)}; }
    bool any() const { return _mm256_movemask_ps(lanes) != 0; }
  };
  __m256 v;

  static Vec8 zero() { return {_mm256_setzero_ps()}; }
  static Vec8 set1(float value) { return {_mm256_set1_ps(value)}; }
  static Vec8 load(const float* from) { return {_mm256_loadu_ps(from)}; }
  static Vec8 load_first(const float* from, int count, float rest) {
    const __m256i lanes = first_lanes(count);
    return {_mm256_blendv_ps(_mm256_set1_ps(rest), _mm256_maskload_ps(from, lanes), _mm256_castsi256_ps(lanes))};
  }
  // Rows of K and V are multiples of eight elements, so `count` is always eight.
  static Vec8 load_typed(const void* from, DType type, int64_t at, int /*count*/) {
    if (type == DType::kF32) return load(static_cast<const float*>(from) + at);
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const uint16_t*>(from) + at));
    if (type == DType::kF16) return {_mm256_cvtph_ps(bits)};
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
  }
  void store(float* to) const { _mm256_storeu_ps(to, v); }
  void store_first(float* to, int count) const { _mm256_maskstore_ps(to, first_lanes(count), v); }

  friend Vec8 operator+(Vec8 a, Vec8 b) { return {_mm256_add_ps(a.v, b.v)}; }
  friend Vec8 operator-(Vec8 a, Vec8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
  friend Vec8 operator*(Vec8 a, Vec8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
  static Vec8 fma(Vec8 a, Vec8 b, Vec8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  static Vec8 max(Vec8 a, Vec8 b) { return {_mm256_max_ps(a.v, b.v)}; }
  friend Mask operator<(Vec8 a, Vec8 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
  static Vec8 select(Mask mask, Vec8 a, Vec8 b) { return {_mm256_blendv_ps(b.v, a.v, mask.lanes)}; }
  float sum() const {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  float highest() const {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  // The exponent goes straight into the float's bits; below the range of normal numbers the result is zero.
  static Vec8 scale_by_power(Vec8 value, Vec8 exponent) {
    const Mask tiny = exponent < set1(-126);
    const __m256i shifted = _mm256_slli_epi32(_mm256_cvtps_epi32(exponent.v), 23);
    const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(value.v), shifted);
    return {_mm256_andnot_ps(tiny.lanes, _mm256_castsi256_ps(bits))};
  }

  static void transpose(Vec8 (&rows)[8]) {
    __m256 a[8];
    for (int i = 0; i < 8; i += 2) {
      a[i] = _mm256_unpacklo_ps(rows[i].v, rows[i + 1].v);
      a[i + 1] = _mm256_unpackhi_ps(rows[i].v, rows[i + 1].v);
    }
    __m256 b[8];  // b[4g + c]: in lane l, column 4l + c of rows 4g .. 4g + 3
    for (int g = 0; g < 8; g += 4) {
      b[g] = _mm256_shuffle_ps(a[g], a[g + 2], 0x44);
      b[g + 1] = _mm256_shuffle_ps(a[g], a[g + 2], 0xee);
      b[g + 2] = _mm256_shuffle_ps(a[g + 1], a[g + 3], 0x44);
      b[g + 3] = _mm256_shuffle_ps(a[g + 1], a[g + 3], 0xee);
    }
    for (int c = 0; c < 4; ++c) {
      rows[c].v = _mm256_permute2f128_ps(b[c], b[4 + c], 0x20);
      rows[4 + c].v = _mm256_permute2f128_ps(b[c], b[4 + c], 0x31);
    }
  }

 private:
  static __m256i first_lanes(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace
}  // namespace ei::kernels
