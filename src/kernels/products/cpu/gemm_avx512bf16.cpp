// Products on x86 CPUs with AVX512-BF16 (gemm_lanes.h).
#if defined(__x86_64__)

#include "kernels/products/cpu/gemm_lanes.h"
#include "kernels/simd/vec_avx512.h"
#include "kernels/simd/x86_features.h"
#include "kernels/variants.h"

namespace ei::kernels {

const GemmKernel& avx512bf16_gemm() {
  static constexpr GemmKernel kKernel = make_pair_gemm<LanesGemm<Vec16>>("avx512bf16", cpu_has_avx512bf16);
  return kKernel;
}

}  // namespace ei::kernels

#endif
