// Small vector steps of the peak scores: rounding to 8 bits, the online normaliser in base 2, the largest gap. Unnamed
// namespace: see flash.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/simd/wide.h"

namespace ei::kernels {

inline constexpr int kPanelKeys = 8;
inline constexpr int kTileRows = 32;

namespace {

using Four = Lanes;

inline Four load(const float* from) { return four_at(from); }
inline void store(float* to, const Four& v) { std::memcpy(to, &v, sizeof v); }
inline Four multiply_add(const Four& a, float b, const Four& c) { return multiply_add(a, Four{b, b, b, b}, c); }

// 2^x for x <= 0, relative error below 1e-3: more than a ranking needs.
inline Four exp2_low(Four x) {
  typedef int32_t Bits __attribute__((vector_size(16)));
  x = larger(x, Four{-126, -126, -126, -126});
  const Four shifted = x + 12582912.0f;  // 1.5 * 2^23: the rounded integer is left in the low bits
  const Four r = x - (shifted - 12582912.0f);
  const Four poly = ((0.0558f * r + 0.24022f) * r + 0.69314f) * r + 1.0f;
  return reinterpret_cast<Four>((reinterpret_cast<Bits>(shifted) << 23) + reinterpret_cast<Bits>(poly));
}

// Adding 1.5 * 2^23 leaves the rounded integer in the low bits.
inline constexpr float kRoundingShift = 12582912.0f;

// Eight elements, `inverse` units each, to 8 bits.
inline void round_eight(const Eight& values, float inverse, int8_t* to) {
  const Four shift = {kRoundingShift, kRoundingShift, kRoundingShift, kRoundingShift};
  const Four low = values.low * inverse + shift;
  const Four high = values.high * inverse + shift;
#if defined(__aarch64__)
  const int16x8_t halves = vuzp1q_s16(vreinterpretq_s16_f32(low), vreinterpretq_s16_f32(high));
  vst1_s8(to, vmovn_s16(halves));
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
  typedef int32_t Bits __attribute__((vector_size(16)));
  constexpr float kUnit = 8388608.0f;      // 2^23: one step of an exponent
  constexpr float kBias = 127 - 0.05617f;  // of floats, less what lines lie above the curve on the average
  constexpr float kRoom = 60;
  for (int r = 0; r < kTileRows; r += 16) {
    Four from[4];
    Four high[4];
    Four total[4];
    bool outgrown = false;
    // The first call finds its point.
    for (int v = 0; v < 4 && max[r] == none; ++v) {
      Four first = load(logits + r + 4 * v);
      for (int64_t j = 1; j < count; ++j) first = larger(first, load(logits + j * kTileRows + r + 4 * v));
      store(max + r + 4 * v, first);
    }
    for (int v = 0; v < 4; ++v) {
      high[v] = load(max + r + 4 * v);
      from[v] = (kBias - high[v]) * kUnit;
      total[v] = load(sum + r + 4 * v);
    }
    for (int64_t j = 0; j < count; ++j) {
      for (int v = 0; v < 4; ++v) {
        const Four x = load(logits + j * kTileRows + r + 4 * v);
        high[v] = larger(high[v], x);
        const Four bits = larger(multiply_add(x, kUnit, from[v]), Four{});
        total[v] += reinterpret_cast<Four>(__builtin_convertvector(bits, Bits));
      }
    }
    for (int v = 0; v < 4; ++v)
      for (int lane = 0; lane < 4; ++lane) outgrown = outgrown || high[v][lane] - max[r + 4 * v + lane] > kRoom;
    if (outgrown) {
      // Rare: from new reference points, once more.
      for (int v = 0; v < 4; ++v) {
        total[v] = load(sum + r + 4 * v) * exp2_low(load(max + r + 4 * v) - high[v]);
        store(max + r + 4 * v, high[v]);
      }
      for (int64_t j = 0; j < count; ++j)
        for (int v = 0; v < 4; ++v) total[v] += exp2_low(load(logits + j * kTileRows + r + 4 * v) - high[v]);
    }
    for (int v = 0; v < 4; ++v) store(sum + r + 4 * v, total[v]);
  }
}

// max over kTileRows rows of x - z
inline float largest_gap(const float* x, const float* z) {
  Four most[2] = {load(x) - load(z), load(x + 4) - load(z + 4)};
  for (int r = 8; r < kTileRows; r += 8) {
    most[0] = larger(most[0], load(x + r) - load(z + r));
    most[1] = larger(most[1], load(x + r + 4) - load(z + r + 4));
  }
  const Four all = larger(most[0], most[1]);
  return std::max(std::max(all[0], all[1]), std::max(all[2], all[3]));
}

}  // namespace
}  // namespace ei::kernels
