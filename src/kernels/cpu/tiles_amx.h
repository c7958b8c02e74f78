// AMX tile instructions behind an interface that tiles_emulated.h can imitate. All eight tiles are 16 rows of 64 bytes.
// Plain assembly: g++ 12 drops the stores of the configuration in front of its own _tile_loadconfig.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ei::kernels {
namespace {

struct TilesAmx {
  static void configure() {
    struct alignas(64) Config {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static_assert(sizeof(Config) == 64);
    const Config config;
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  static void release() { asm volatile("tilerelease" ::: "memory"); }

  template <int tile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(tile));
  }
  // Rows lie 64 bytes apart.
  template <int tile>
  static void load(const void* from) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(ptrdiff_t{64}), "i"(tile) : "memory");
  }
  template <int tile>
  static void store(void* to) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(ptrdiff_t{64}), "i"(tile) : "memory");
  }
  // c[16][16] f32 += a[16][32] bf16 * b, where lane (i, j) of b holds elements 2i and 2i + 1 of column j
  template <int c, int a, int b>
  static void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }
};

}  // namespace
}  // namespace ei::kernels
