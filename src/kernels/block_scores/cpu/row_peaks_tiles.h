// Row peaks on matrix tiles of bytes (AMX-INT8): eight keys times 64 elements as they lie, by 64 elements times 16
// rows, give sums [8 keys, 16 rows], whose best keys are then maxima of whole vectors. What is left of dim behind the
// last 64 goes through tiles cut to it, so nothing is padded.
#pragma once

#include "kernels/block_scores/cpu/row_peaks.h"

namespace ei::kernels {

template <typename Tiles>
struct TilesPeaks {
  static constexpr int kRows = 32;
  static constexpr int kRun = 4;
  // [8 keys, dim] and [dim / 4, kRows, 4]
  static int64_t key_index(int key, int d, int dim) { return int64_t{key} * dim + d; }
  static int64_t query_index(int row, int d) { return d / 4 * (4 * kRows) + row * 4 + d % 4; }

  // Tiles 0, 1: sums of each half of the rows. 2: keys; 3, 4: queries. 5: the keys' rest; 6, 7: the queries'.
  struct Session {
    explicit Session(int dim) {
      const int rest = dim % kDepth > 0 ? dim % kDepth : kDepth;
      const auto wide = static_cast<uint16_t>(rest);
      const auto high = static_cast<uint8_t>(rest / 4);
      before = Tiles::configure({{8, 8, 8, 16, 16, 8, high, high}, {64, 64, 64, 64, 64, wide, 64, 64}});
    }
    ~Session() { Tiles::restore(before); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    typename Tiles::Config before;
  };

  static void products(const int8_t* q, const int8_t* panel, int dim, float* out) {
    const Sums sums = multiply(q, panel, dim);
    for (int key = 0; key < kPanelKeys; ++key)
      for (int half = 0; half < 2; ++half) store_floats(sums.at[half][key], out + key * kRows + half * kLanes);
  }

  static void peaks(const int8_t* q, const int8_t* panel, int dim, float* out) {
    const Sums sums = multiply(q, panel, dim);
    for (int half = 0; half < 2; ++half) {
      Lanes best = sums.at[half][0];
      for (int key = 1; key < kPanelKeys; ++key) best = best > sums.at[half][key] ? best : sums.at[half][key];
      store_floats(best, out + half * kLanes);
    }
  }

 private:
  static constexpr int kDepth = 64;
  static constexpr int kLanes = 16;
  typedef int32_t Lanes __attribute__((vector_size(64)));
  typedef float Floats __attribute__((vector_size(64)));
  struct Sums {
    Lanes at[2][kPanelKeys];
  };

  static inline __attribute__((always_inline)) void store_floats(const Lanes& lanes, float* to) {
    const Floats floats = __builtin_convertvector(lanes, Floats);
    std::memcpy(to, &floats, sizeof floats);
  }

  static inline __attribute__((always_inline)) Sums multiply(const int8_t* q, const int8_t* panel, int dim) {
    constexpr int64_t kStep = 4 * kRows;
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    int d = 0;
    for (; d + kDepth <= dim; d += kDepth) {
      Tiles::template load<2>(panel + d, dim);
      Tiles::template load<3>(q + d / 4 * kStep, kStep);
      Tiles::template dot_bytes<0, 2, 3>();
      Tiles::template load<4>(q + d / 4 * kStep + 64, kStep);
      Tiles::template dot_bytes<1, 2, 4>();
    }
    if (d < dim) {
      Tiles::template load<5>(panel + d, dim);
      Tiles::template load<6>(q + d / 4 * kStep, kStep);
      Tiles::template dot_bytes<0, 5, 6>();
      Tiles::template load<7>(q + d / 4 * kStep + 64, kStep);
      Tiles::template dot_bytes<1, 5, 7>();
    }
    Sums sums;
    Tiles::template store<0>(sums.at[0]);
    Tiles::template store<1>(sums.at[1]);
    return sums;
  }
};

}  // namespace ei::kernels
