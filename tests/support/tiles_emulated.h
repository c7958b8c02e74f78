// The tile operations of tiles_amx.h as plain loops, for tests on machines without AMX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/simd/tile_shapes.h"
#include "tensor/dtype.h"

namespace ei::kernels {

struct TilesEmulated {
  using Config = TileShapes;
  static Config configure(const TileShapes& shapes = {}) {
    const Config before = state().shapes;
    std::memset(state().tile, 0, sizeof(state().tile));
    state().shapes = shapes;
    return before;
  }
  static void restore(const Config& before) { state().shapes = before; }

  template <int tile>
  static void zero() {
    std::memset(state().tile[tile], 0, 1024);
  }
  template <int tile>
  static void load(const void* from, ptrdiff_t stride = 64) {
    zero<tile>();
    for (int row = 0; row < state().shapes.rows[tile]; ++row)
      std::memcpy(state().tile[tile] + row * 64, static_cast<const std::byte*>(from) + row * stride,
                  state().shapes.row_bytes[tile]);
  }
  template <int tile>
  static void store(void* to, ptrdiff_t stride = 64) {
    for (int row = 0; row < state().shapes.rows[tile]; ++row)
      std::memcpy(static_cast<std::byte*>(to) + row * stride, state().tile[tile] + row * 64,
                  state().shapes.row_bytes[tile]);
  }
  template <int c, int a, int b>
  static void dot() {
    float sums[16][16];
    uint16_t left[16][32];
    uint16_t right[16][16][2];
    std::memcpy(sums, state().tile[c], 1024);
    std::memcpy(left, state().tile[a], 1024);
    std::memcpy(right, state().tile[b], 1024);
    for (int row = 0; row < 16; ++row) {
      for (int pair = 0; pair < 16; ++pair) {
        const float first = bf16_to_f32(left[row][2 * pair]);
        const float second = bf16_to_f32(left[row][2 * pair + 1]);
        for (int column = 0; column < 16; ++column) {
          sums[row][column] +=
              first * bf16_to_f32(right[pair][column][0]) + second * bf16_to_f32(right[pair][column][1]);
        }
      }
    }
    std::memcpy(state().tile[c], sums, 1024);
  }
  // Shapes that do not fit together fault on the CPU; here they spoil the sums.
  template <int c, int a, int b>
  static void dot_bytes() {
    const TileShapes& shapes = state().shapes;
    const bool fits = shapes.rows[c] == shapes.rows[a] && shapes.row_bytes[c] == shapes.row_bytes[b] &&
                      shapes.row_bytes[a] == 4 * shapes.rows[b];
    int32_t sums[16][16];
    int8_t left[16][64];
    int8_t right[16][16][4];
    std::memcpy(sums, state().tile[c], 1024);
    std::memcpy(left, state().tile[a], 1024);
    std::memcpy(right, state().tile[b], 1024);
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 16; ++column)
        for (int i = 0; i < 64; ++i) sums[row][column] += fits ? left[row][i] * right[i / 4][column][i % 4] : 1 << 20;
    std::memcpy(state().tile[c], sums, 1024);
  }

 private:
  struct State {
    std::byte tile[8][1024];
    TileShapes shapes;
  };
  static State& state() {
    static thread_local State tiles;
    return tiles;
  }
};

}  // namespace ei::kernels
