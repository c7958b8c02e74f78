// The tile operations of tiles_amx.h as plain loops, for tests on machines without AMX.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

namespace ei::kernels {

struct TilesEmulated {
  static void configure() { std::memset(state().tile, 0, sizeof(state().tile)); }
  static void release() {}

  template <int tile>
  static void zero() {
    std::memset(state().tile[tile], 0, 1024);
  }
  template <int tile>
  static void load(const void* from) {
    std::memcpy(state().tile[tile], from, 1024);
  }
  template <int tile>
  static void store(void* to) {
    std::memcpy(to, state().tile[tile], 1024);
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

 private:
  struct State {
    std::byte tile[8][1024];
  };
  static State& state() {
    static thread_local State tiles;
    return tiles;
  }
};

}  // namespace ei::kernels
