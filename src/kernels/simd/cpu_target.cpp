// Compiled into a test program with another EI_CPU_TARGET, this file takes the library's place
// (cmake/lowest_target.cmake): it must define all of cpu_target.h.
#include "kernels/simd/cpu_target.h"

#include <algorithm>
#include <array>

#include "kernels/simd/arm_features.h"
#include "kernels/simd/x86_features.h"

#ifndef EI_CPU_TARGET
#define EI_CPU_TARGET ""
#endif

namespace ei::kernels {
namespace {

// Each has the instructions of those before it.
#if defined(__aarch64__)
constexpr std::array<std::string_view, 3> kTargets{"armv8.2", "armv8.4", "armv8.6"};
#elif defined(__x86_64__)
constexpr std::array<std::string_view, 3> kTargets{"x86-64-v2", "x86-64-v3", "x86-64-v4"};
#else
constexpr std::array<std::string_view, 0> kTargets{};
#endif

}  // namespace

std::string_view cpu_target() { return EI_CPU_TARGET; }

bool target_reaches(std::string_view level) {
  if (cpu_target().empty()) return true;
  const auto reached = std::find(kTargets.begin(), kTargets.end(), level);
  return reached <= std::find(kTargets.begin(), kTargets.end(), cpu_target()) && reached != kTargets.end();
}

bool cpu_meets_target() {
  if (cpu_target().empty()) return true;
#if defined(__aarch64__)
  return cpu_has_dotprod() && cpu_has_fp16() && (!target_reaches("armv8.6") || (cpu_has_bf16() && cpu_has_i8mm()));
#elif defined(__x86_64__)
  return cpu_has_sse42() && (!target_reaches("x86-64-v3") || cpu_has_avx2()) &&
         (!target_reaches("x86-64-v4") || cpu_has_avx512());
#else
  return false;
#endif
}

}  // namespace ei::kernels
