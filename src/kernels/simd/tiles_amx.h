// AMX tile instructions behind an interface that tiles_emulated.h can imitate.
// Plain assembly: g++ 12 drops the stores of the configuration in front of its own _tile_loadconfig.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/simd/tile_shapes.h"

namespace ei::kernels {
namespace {

// What LDTILECFG reads and STTILECFG writes.
struct alignas(64) TileConfig {
  uint8_t palette = 0;  // 0: the tiles are not in use
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

struct TilesAmx {
  using Config = TileConfig;
  // Gives what was there before: ggml configures a thread's tiles once and relies on it ever after.
  static Config configure(const TileShapes& shapes = {}) {
    const Config before = current();
    Config config;
    config.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      config.row_bytes[tile] = shapes.row_bytes[tile];
      config.rows[tile] = shapes.rows[tile];
    }
    asm volatile("ldtilecfg %0" ::"m"(config));
    return before;
  }
  static void restore(const Config& before) {
    if (before.palette != 0) {
      asm volatile("ldtilecfg %0" ::"m"(before));
    } else {
      asm volatile("tilerelease" ::: "memory");
    }
  }
  static Config current() {
    Config config;
    asm volatile("sttilecfg %0" : "=m"(config));
    return config;
  }

  template <int tile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(tile));
  }
  // Rows lie `stride` bytes apart.
  template <int tile>
  static void load(const void* from, ptrdiff_t stride = 64) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile) : "memory");
  }
  template <int tile>
  static void store(void* to, ptrdiff_t stride = 64) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(tile) : "memory");
  }
  // c[16][16] f32 += a[16][32] bf16 * b, where lane (i, j) of b holds elements 2i and 2i + 1 of column j
  template <int c, int a, int b>
  static void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }
  // c[16][16] int32 += a[16][64] int8 * b, where lane (i, j) of b holds elements 4i to 4i + 3 of column j
  template <int c, int a, int b>
  static void dot_bytes() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }
};

}  // namespace
}  // namespace ei::kernels
