#include "kernels/simd/x86_features.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "kernels/simd/cpu_target.h"

namespace ei::kernels {
namespace {

// Register states the operating system saves (XCR0): the instructions of a unit fault without its bits.
bool saves(uint64_t states) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return false;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return ((uint64_t{high} << 32 | low) & states) == states;
}

// By hand: not every compiler knows the unit's name.
bool converts_half() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

// Tiles of one element type, by its bit in leaf 7.
bool has_tiles(int type_bit) {
  constexpr int kTiles = 24;
  constexpr uint64_t kTileStates = 3u << 17;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return (d >> type_bit & 1) != 0 && (d >> kTiles & 1) != 0 && saves(kTileStates) &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// No named target has these: they are there when the build is for this machine.
bool beyond_targets() { return target_reaches(""); }

}  // namespace

// Asked once: variants are chosen for every step of a token, and CPUID leaves a virtual machine each time.
bool cpu_has_sse42() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"); }

bool cpu_has_avx2() {
  static const bool has =
      target_reaches("x86-64-v3") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && converts_half();
  return has;
}

bool cpu_has_avx512() {
  static const bool has = target_reaches("x86-64-v4") && cpu_has_avx2() && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  return has;
}

bool cpu_has_avx512vnni() { return beyond_targets() && cpu_has_avx512() && __builtin_cpu_supports("avx512vnni"); }

bool cpu_has_avx512bf16() {
  static const bool has = [] {
    uint32_t a = 0, b = 0, c = 0, d = 0;
    return beyond_targets() && cpu_has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0;
  }();
  return has;
}

bool cpu_has_amx_bf16() {
  constexpr int kBf16 = 22;
  static const bool has = cpu_has_avx512bf16() && has_tiles(kBf16);
  return has;
}

bool cpu_has_amx_int8() {
  constexpr int kInt8 = 25;
  static const bool has = beyond_targets() && cpu_has_avx512() && has_tiles(kInt8);
  return has;
}

}  // namespace ei::kernels

#endif
