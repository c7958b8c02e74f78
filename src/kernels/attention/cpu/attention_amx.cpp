#if defined(__x86_64__)
#include "kernels/attention/cpu/flash_variant.h"
#include "kernels/attention/cpu/lanes_decode.h"
#include "kernels/attention/cpu/lanes_tiles.h"
#include "kernels/simd/tiles_amx.h"
#include "kernels/simd/vec_avx512.h"
#include "kernels/simd/x86_features.h"
#include "kernels/variants.h"

namespace ei::kernels {
namespace {

using Flash = FlashVariant<LanesTiles<Vec16, TilesAmx>, LanesDecode<Vec16>>;

bool accepts(DType key_type, DType value_type) { return key_type == DType::kBF16 && value_type == DType::kBF16; }

}  // namespace

const AttentionVariant& amx_attention() {
  static constexpr AttentionVariant kVariant{.name = "amx",
                                             .usable = cpu_has_amx_bf16,
                                             .accepts = accepts,
                                             .scratch_bytes = Flash::scratch_bytes,
                                             .run = Flash::run};
  return kVariant;
}

}  // namespace ei::kernels
#endif
