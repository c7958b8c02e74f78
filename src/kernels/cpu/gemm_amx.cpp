// Products on x86 CPUs with AMX-BF16 (gemm_tiles.h).
#if defined(__x86_64__)

#include "kernels/cpu/gemm_tiles.h"
#include "kernels/cpu/tiles_amx.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/vec_avx512.h"
#include "kernels/cpu/x86_features.h"

namespace ei::kernels {

const GemmKernel& amx_gemm() {
  static constexpr GemmKernel kKernel = make_pair_gemm<TilesGemm<Vec16, TilesAmx>>("amx", cpu_has_amx_bf16);
  return kKernel;
}

}  // namespace ei::kernels

#endif
