// Row peaks for AMX-INT8 (row_peaks_tiles.h).
#if defined(__x86_64__)

#include "kernels/block_scores/cpu/row_peaks_tiles.h"
#include "kernels/block_scores/cpu/row_peaks_variants.h"
#include "kernels/simd/tiles_amx.h"
#include "kernels/simd/x86_features.h"

namespace ei::kernels {

const PeakVariant& amx_peaks() {
  static constexpr PeakVariant kVariant = make_peak_variant<TilesPeaks<TilesAmx>>("amx", "amx", cpu_has_amx_int8);
  return kVariant;
}

}  // namespace ei::kernels

#endif
