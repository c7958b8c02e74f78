#if defined(__x86_64__)
#include "kernels/attention/cpu/flash_variant.h"
#include "kernels/attention/cpu/lanes_decode.h"
#include "kernels/attention/cpu/lanes_prefill.h"
#include "kernels/simd/vec_avx2.h"
#include "kernels/simd/x86_features.h"
#include "kernels/variants.h"

namespace ei::kernels {
namespace {

using Flash = FlashVariant<LanesPrefill<Vec8, 4, 3, false>, LanesDecode<Vec8>>;

bool accepts(DType, DType) { return true; }

}  // namespace

const AttentionVariant& avx2_attention() {
  static constexpr AttentionVariant kVariant{.name = "avx2",
                                             .usable = cpu_has_avx2,
                                             .accepts = accepts,
                                             .scratch_bytes = Flash::scratch_bytes,
                                             .run = Flash::run};
  return kVariant;
}

}  // namespace ei::kernels
#endif
