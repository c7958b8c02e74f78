// A vector of floats written as plain loops, with the interface of Vec8 (vec_avx2.h) and Vec16 (vec_avx512.h): the
// kernels' layouts, masks and tails are tested through it on machines without those instructions.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tensor/dtype.h"

namespace ei::kernels {

// Loops run on any CPU.
inline bool emulated_always() { return true; }

template <int width>
struct VecEmulated {
  static constexpr int kWidth = width;
  struct Mask {
    bool lane[width];
    friend Mask operator&(Mask a, Mask b) {
      for (int i = 0; i < width; ++i) a.lane[i] = a.lane[i] && b.lane[i];
      return a;
    }
    bool any() const {
      for (bool set : lane) {
        if (set) return true;
      }
      return false;
    }
  };
  float lane[width];

  template <typename Function>
  static VecEmulated make(Function function) {
    VecEmulated made;
    for (int i = 0; i < width; ++i) made.lane[i] = function(i);
    return made;
  }
  static VecEmulated zero() { return set1(0); }
  static VecEmulated set1(float value) {
    return make([&](int) { return value; });
  }
  static VecEmulated load(const float* from) {
    return make([&](int i) { return from[i]; });
  }
  static VecEmulated load_first(const float* from, int count, float rest) {
    return make([&](int i) { return i < count ? from[i] : rest; });
  }
  // The first `count` elements of a K or V row, zeros behind them.
  static VecEmulated load_typed(const void* from, DType type, int64_t at, int count) {
    return make([&](int i) { return i < count ? load_element(from, type, at + i) : 0.0f; });
  }
  void store(float* to) const { store_first(to, width); }
  void store_first(float* to, int count) const {
    for (int i = 0; i < count; ++i) to[i] = lane[i];
  }

  friend VecEmulated operator+(VecEmulated a, VecEmulated b) {
    return make([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  friend VecEmulated operator-(VecEmulated a, VecEmulated b) {
    return make([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  friend VecEmulated operator*(VecEmulated a, VecEmulated b) {
    return make([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  // a * b + c, rounded once
  static VecEmulated fma(VecEmulated a, VecEmulated b, VecEmulated c) {
    return make([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  static VecEmulated max(VecEmulated a, VecEmulated b) {
    return make([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  friend Mask operator<(VecEmulated a, VecEmulated b) {
    Mask mask;
    for (int i = 0; i < width; ++i) mask.lane[i] = a.lane[i] < b.lane[i];
    return mask;
  }
  static VecEmulated select(Mask mask, VecEmulated a, VecEmulated b) {
    return make([&](int i) { return mask.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  float sum() const {
    float total = 0;
    for (float value : lane) total += value;
    return total;
  }
  float highest() const {
    float best = lane[0];
    for (float value : lane) best = value > best ? value : best;
    return best;
  }
  // value * 2^exponent for an integral exponent; vanishes when that is tiny
  static VecEmulated scale_by_power(VecEmulated value, VecEmulated exponent) {
    return make([&](int i) {
      const float power = std::min(exponent.lane[i], 1024.0f);  // overflows anyway
      return power < -126 ? 0.0f : std::ldexp(value.lane[i], static_cast<int>(power));
    });
  }
  static void transpose(VecEmulated (&rows)[width]) {
    for (int i = 0; i < width; ++i) {
      for (int j = 0; j < i; ++j) std::swap(rows[i].lane[j], rows[j].lane[i]);
    }
  }

  // Below, a lane holds two bf16: the first in its low half.
  static VecEmulated pair(VecEmulated first, VecEmulated second) {
    return make([&](int i) { return pair_of(f32_to_bf16(first.lane[i]), f32_to_bf16(second.lane[i])); });
  }
  // Lane i pairs first[i] and second[i].
  static VecEmulated zip(const uint16_t* first, const uint16_t* second) {
    return make([&](int i) { return pair_of(first[i], second[i]); });
  }
  // acc + a.first * b.first + a.second * b.second
  static VecEmulated dot_pairs(VecEmulated a, VecEmulated b, VecEmulated acc) {
    return make([&](int i) {
      const uint32_t x = std::bit_cast<uint32_t>(a.lane[i]);
      const uint32_t y = std::bit_cast<uint32_t>(b.lane[i]);
      return acc.lane[i] + high_half(x << 16) * high_half(y << 16) + high_half(x) * high_half(y);
    });
  }

 private:
  static float pair_of(uint16_t first, uint16_t second) {
    return std::bit_cast<float>(uint32_t{first} | uint32_t{second} << 16);
  }
  static float high_half(uint32_t bits) { return std::bit_cast<float>(bits & 0xffff0000u); }
};

}  // namespace ei::kernels
