// Row peaks for AVX-512 with VNNI (row_peaks_lanes.h). CPUs that lack VNNI take AVX2's.
#if defined(__x86_64__)

#include "kernels/block_scores/cpu/row_peaks_lanes.h"
#include "kernels/block_scores/cpu/row_peaks_variants.h"
#include "kernels/simd/vec_avx512.h"
#include "kernels/simd/x86_features.h"

namespace ei::kernels {
namespace {

struct Bytes64 {
  __m512i v;

  static Bytes64 load(const void* from) { return {_mm512_loadu_si512(from)}; }
  static Bytes64 set1(int32_t lane) { return {_mm512_set1_epi32(lane)}; }
  static Bytes64 flip(Bytes64 bytes) { return {_mm512_xor_si512(bytes.v, _mm512_set1_epi8(-128))}; }
  static Bytes64 dot(Bytes64 sums, Bytes64 a, Bytes64 b) { return {_mm512_dpbusd_epi32(sums.v, a.v, b.v)}; }
  static Bytes64 max(Bytes64 a, Bytes64 b) { return {_mm512_max_epi32(a.v, b.v)}; }
  void store(int32_t* to) const { _mm512_storeu_si512(to, v); }
  void store_floats(float* to) const { _mm512_storeu_ps(to, _mm512_cvtepi32_ps(v)); }
};

}  // namespace

const PeakVariant& avx512_peaks() {
  static constexpr PeakVariant kVariant =
      make_peak_variant<LanesPeaks<Bytes64>>("avx512", "avx512", cpu_has_avx512vnni);
  return kVariant;
}

}  // namespace ei::kernels

#endif
