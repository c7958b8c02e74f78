// Row peaks for vectors that multiply unsigned bytes by signed ones and add four neighbours (VNNI). A lane is a row, so
// that the best of eight keys is seven maxima of whole vectors. Queries q become q + 128; what that adds to a product,
// 128 times the sum of the key, is taken off before the start.
//
// V is a vector of 16 lanes of 32 bits or of 64 bytes:
//   static V load(const void* from);
//   static V set1(int32_t lane);
//   static V flip(V bytes);               // signed q to unsigned q + 128: the highest bit of every byte turned over
//   static V dot(V sums, V a, V b);       // sums + a's four bytes, unsigned, times b's four, signed
//   static V max(V a, V b);
//   void store(int32_t* to) const;
//   void store_floats(float* to) const;   // converted
#pragma once

#include <cstring>

#include "kernels/block_scores/cpu/row_peaks.h"

namespace ei::kernels {

template <typename V>
struct LanesPeaks {
  static constexpr int kRows = 32;
  static constexpr int kRun = 4;
  static constexpr int kVecs = 2;
  static constexpr int kLanes = 16;
  // [dim / 4, 8 keys, 4] and [dim / 4, kRows, 4]
  static int64_t key_index(int key, int d, int) { return d / 4 * 32 + key * 4 + d % 4; }
  static int64_t query_index(int row, int d) { return d / 4 * (4 * kRows) + row * 4 + d % 4; }
  struct Session {
    explicit Session(int) {}
  };

  static void products(const int8_t* q, const int8_t* panel, int dim, float* out) {
    const Sums sums = multiply(q, panel, dim);
    for (int key = 0; key < kPanelKeys; ++key)
      for (int v = 0; v < kVecs; ++v) sums.at[key][v].store_floats(out + key * kRows + v * kLanes);
  }

  static void peaks(const int8_t* q, const int8_t* panel, int dim, float* out) {
    const Sums sums = multiply(q, panel, dim);
    for (int v = 0; v < kVecs; ++v) {
      V best = sums.at[0][v];
      for (int key = 1; key < kPanelKeys; ++key) best = V::max(best, sums.at[key][v]);
      best.store_floats(out + v * kLanes);
    }
  }

 private:
  struct Sums {
    V at[kPanelKeys][kVecs];
  };

  static inline __attribute__((always_inline)) Sums multiply(const int8_t* q, const int8_t* panel, int dim) {
    int32_t excess[kPanelKeys];
    sum_keys(panel, dim, excess);
    Sums sums;
    for (int key = 0; key < kPanelKeys; ++key)
      for (int v = 0; v < kVecs; ++v) sums.at[key][v] = V::set1(-excess[key]);
    for (int d = 0; d < dim; d += 4, q += 4 * kRows, panel += 4 * kPanelKeys) {
      V rows[kVecs];
      for (int v = 0; v < kVecs; ++v) rows[v] = V::flip(V::load(q + v * 4 * kLanes));
      for (int key = 0; key < kPanelKeys; ++key) {
        int32_t four;
        std::memcpy(&four, panel + key * 4, sizeof four);
        for (int v = 0; v < kVecs; ++v) sums.at[key][v] = V::dot(sums.at[key][v], rows[v], V::set1(four));
      }
    }
    return sums;
  }

  // 128 times the sum of each key. A vector holds eight elements of all eight keys: twice four.
  static inline __attribute__((always_inline)) void sum_keys(const int8_t* panel, int dim, int32_t* sums) {
    const V ones = V::flip(V::set1(0));
    V total = V::set1(0);
    for (int d = 0; d < dim; d += 8) total = V::dot(total, ones, V::load(panel + d * kPanelKeys));
    int32_t lanes[kLanes];
    total.store(lanes);
    for (int key = 0; key < kPanelKeys; ++key) sums[key] = lanes[key] + lanes[kPanelKeys + key];
  }
};

}  // namespace ei::kernels
