// The ISA variants compiled for this architecture, of attention, dense products and row-wise loops. Each lives in its
// own file with its own compiler flags (isa.cmake) and is usable where simd/arm_features.h or simd/x86_features.h says
// so; to add one, declare it here and list it in attention.cpp, gemm.cpp or rowwise.cpp.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/products/gemm.h"
#include "kernels/rowwise/rowwise.h"

namespace ei::kernels {

const RowwiseVariant& plain_rowwise();
#if defined(__aarch64__)
const AttentionVariant& neonbf16_attention();
const AttentionVariant& neonfp16_attention();
const AttentionVariant& neon_attention();
const GemmKernel& neonbf16_gemm();
const GemmKernel& neonfp16_gemm();
#elif defined(__x86_64__)
const AttentionVariant& amx_attention();
const AttentionVariant& avx512bf16_attention();
const AttentionVariant& avx512_attention();
const AttentionVariant& avx2_attention();
const GemmKernel& amx_gemm();
const GemmKernel& avx512bf16_gemm();
const GemmKernel& avx512vnni_gemm();
const RowwiseVariant& avx512_rowwise();
const RowwiseVariant& avx2_rowwise();
#endif

}  // namespace ei::kernels
