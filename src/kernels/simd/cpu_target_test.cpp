#include "kernels/simd/cpu_target.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/products/gemm.h"

namespace ei::kernels {
namespace {

// Each target, and the attention variants that need more than the ones before it.
struct Level {
  std::string target;
  std::vector<std::string> variants;
};
std::vector<Level> levels() {
#if defined(__aarch64__)
  return {{"armv8.2", {}}, {"armv8.4", {}}, {"armv8.6", {"neonbf16"}}, {"", {}}};
#else
  return {{"x86-64-v2", {}}, {"x86-64-v3", {"avx2"}}, {"x86-64-v4", {"avx512"}}, {"", {"avx512bf16", "amx"}}};
#endif
}

TEST(CpuTarget, ReachesItselfAndWhatIsBelow) {
  bool passed = false;  // the build's own target
  for (const Level& level : levels()) {
    EXPECT_EQ(target_reaches(level.target), cpu_target().empty() || !passed) << level.target;
    passed = passed || level.target == cpu_target();
  }
  EXPECT_TRUE(passed) << "no target of this architecture: " << cpu_target();
  EXPECT_TRUE(cpu_meets_target());
}

TEST(CpuTarget, NoKernelBeyondItIsUsed) {
  for (const Level& level : levels()) {
    if (target_reaches(level.target)) continue;
    for (const std::string& name : level.variants) {
      for (const AttentionVariant* variant : attention_variants()) {
        EXPECT_FALSE(variant->name == name && variant->usable()) << name;
      }
      for (const GemmKernel* kernel : gemm_kernels()) EXPECT_FALSE(kernel->name == name && kernel->usable()) << name;
    }
  }
}

}  // namespace
}  // namespace ei::kernels
