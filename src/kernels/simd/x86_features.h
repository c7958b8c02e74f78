// What this x86 CPU and its operating system allow, as far as the build's target reaches (cpu_target.h). Compiled with
// plain flags, called once per variant.
#pragma once

namespace ei::kernels {

bool cpu_has_sse42();
bool cpu_has_avx2();        // with FMA and F16C
bool cpu_has_avx512();      // F, BW, DQ, VL
bool cpu_has_avx512vnni();  // on top of cpu_has_avx512
bool cpu_has_avx512bf16();  // on top of cpu_has_avx512
// Both ask the kernel for the tile registers.
bool cpu_has_amx_bf16();  // on top of cpu_has_avx512bf16
bool cpu_has_amx_int8();  // on top of cpu_has_avx512

}  // namespace ei::kernels
