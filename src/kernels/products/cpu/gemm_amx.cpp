// Products on x86 CPUs with AMX-BF16 (gemm_tiles.h).
#if defined(__x86_64__)

#include "kernels/products/cpu/gemm_tiles.h"
#include "kernels/simd/tiles_amx.h"
#include "kernels/simd/vec_avx512.h"
#include "kernels/simd/x86_features.h"
#include "kernels/variants.h"

namespace ei::kernels {

const GemmKernel& amx_gemm() {
  static constexpr GemmKernel kKernel = make_pair_gemm<TilesGemm<Vec16, TilesAmx>>("amx", cpu_has_amx_bf16);
  return kKernel;
}

}  // namespace ei::kernels

#endif
