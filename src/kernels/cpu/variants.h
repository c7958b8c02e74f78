// The ISA variants compiled for this architecture, of attention and of dense products. Each lives in its own file with
// its own compiler flags (isa.cmake); to add one, declare it here and list it in attention.cpp or gemm.cpp.
#pragma once

#include "kernels/attention.h"
#include "kernels/gemm.h"

namespace ei::kernels {

#if defined(__aarch64__)
const AttentionVariant& neonbf16_attention();
const AttentionVariant& neon_attention();
const GemmKernel& neonbf16_gemm();
#elif defined(__x86_64__)
const AttentionVariant& amx_attention();
const AttentionVariant& avx512bf16_attention();
const AttentionVariant& avx512_attention();
const AttentionVariant& avx2_attention();
#endif

}  // namespace ei::kernels
