#include "kernels/simd/arm_features.h"

#if defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "kernels/simd/cpu_target.h"

namespace ei::kernels {
namespace {

bool has(unsigned long kind, unsigned long bits) { return (getauxval(kind) & bits) == bits; }

}  // namespace

bool cpu_has_dotprod() { return target_reaches("armv8.2") && has(AT_HWCAP, HWCAP_ASIMDDP); }
bool cpu_has_fp16() { return target_reaches("armv8.2") && has(AT_HWCAP, HWCAP_FPHP | HWCAP_ASIMDHP); }
bool cpu_has_bf16() { return target_reaches("armv8.6") && has(AT_HWCAP2, HWCAP2_BF16); }
bool cpu_has_i8mm() { return target_reaches("armv8.6") && has(AT_HWCAP2, HWCAP2_I8MM); }

}  // namespace ei::kernels

#endif
