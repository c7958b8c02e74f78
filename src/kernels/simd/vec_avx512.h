// Sixteen floats in an AVX-512 register. Included only by files compiled with -mavx512f -mavx512bw -mavx512dq
// -mavx512vl; the bf16 members need -mavx512bf16. VecEmulated (vec_emulated.h) says what each member means.
#pragma once

// g++ 12 takes the "undefined" registers inside its own intrinsics for a mistake.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

#include "tensor/dtype.h"

namespace ei::kernels {
namespace {

struct Vec16 {
  static constexpr int kWidth = 16;
  struct Mask {
    __mmask16 bits;
    friend Mask operator&(Mask a, Mask b) { return {static_cast<__mmask16>(a.bits & b.bits)}; }
    bool any() const { return bits != 0; }
  };
  __m512 v;

  static Vec16 zero() { return {_mm512_setzero_ps()}; }
  static Vec16 set1(float value) { return {_mm512_set1_ps(value)}; }
  static Vec16 load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Vec16 load_first(const float* from, int count, float rest) {
    return {_mm512_mask_loadu_ps(_mm512_set1_ps(rest), first_lanes(count), from)};
  }
  static Vec16 load_typed(const void* from, DType type, int64_t at, int count) {
    const __mmask16 lanes = first_lanes(count);
    if (type == DType::kF32) return {_mm512_maskz_loadu_ps(lanes, static_cast<const float*>(from) + at)};
    const __m256i bits = _mm256_maskz_loadu_epi16(lanes, static_cast<const uint16_t*>(from) + at);
    if (type == DType::kF16) return {_mm512_cvtph_ps(bits)};
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  void store(float* to) const { _mm512_storeu_ps(to, v); }
  void store_first(float* to, int count) const { _mm512_mask_storeu_ps(to, first_lanes(count), v); }

  friend Vec16 operator+(Vec16 a, Vec16 b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Vec16 operator-(Vec16 a, Vec16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Vec16 operator*(Vec16 a, Vec16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static Vec16 fma(Vec16 a, Vec16 b, Vec16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static Vec16 max(Vec16 a, Vec16 b) { return {_mm512_max_ps(a.v, b.v)}; }
  friend Mask operator<(Vec16 a, Vec16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
  static Vec16 select(Mask mask, Vec16 a, Vec16 b) { return {_mm512_mask_blend_ps(mask.bits, b.v, a.v)}; }
  float sum() const { return _mm512_reduce_add_ps(v); }
  float highest() const { return _mm512_reduce_max_ps(v); }
  static Vec16 scale_by_power(Vec16 value, Vec16 exponent) { return {_mm512_scalef_ps(value.v, exponent.v)}; }

  // Pairs of rows, then pairs of pairs, inside 128-bit lanes; then the lanes themselves.
  static void transpose(Vec16 (&rows)[16]) {
    __m512 a[16];
    for (int i = 0; i < 16; i += 2) {
      a[i] = _mm512_unpacklo_ps(rows[i].v, rows[i + 1].v);
      a[i + 1] = _mm512_unpackhi_ps(rows[i].v, rows[i + 1].v);
    }
    __m512 b[16];  // b[4g + c]: in lane l, column 4l + c of rows 4g .. 4g + 3
    for (int g = 0; g < 16; g += 4) {
      b[g] = _mm512_shuffle_ps(a[g], a[g + 2], 0x44);
      b[g + 1] = _mm512_shuffle_ps(a[g], a[g + 2], 0xee);
      b[g + 2] = _mm512_shuffle_ps(a[g + 1], a[g + 3], 0x44);
      b[g + 3] = _mm512_shuffle_ps(a[g + 1], a[g + 3], 0xee);
    }
    for (int c = 0; c < 4; ++c) {
      const __m512 low01 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x44);  // lanes 0, 1 of the first eight rows
      const __m512 low23 = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xee);  // lanes 2, 3
      const __m512 high01 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x44);
      const __m512 high23 = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xee);
      rows[c].v = _mm512_shuffle_f32x4(low01, high01, 0x88);
      rows[4 + c].v = _mm512_shuffle_f32x4(low01, high01, 0xdd);
      rows[8 + c].v = _mm512_shuffle_f32x4(low23, high23, 0x88);
      rows[12 + c].v = _mm512_shuffle_f32x4(low23, high23, 0xdd);
    }
  }

  static Vec16 zip(const uint16_t* first, const uint16_t* second) {
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first)));
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(second)));
    return {_mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32(high, 16)))};
  }
#if defined(__AVX512BF16__)
  static Vec16 pair(Vec16 first, Vec16 second) {
    alignas(64) static constexpr uint16_t kZip[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512bh both = _mm512_cvtne2ps_pbh(second.v, first.v);
    return {_mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_load_si512(kZip), reinterpret_cast<__m512i>(both)))};
  }
  static Vec16 dot_pairs(Vec16 a, Vec16 b, Vec16 acc) {
    return {_mm512_dpbf16_ps(acc.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
  }
#endif

 private:
  static __mmask16 first_lanes(int count) { return static_cast<__mmask16>((uint32_t{1} << count) - 1); }
};

}  // namespace
}  // namespace ei::kernels
