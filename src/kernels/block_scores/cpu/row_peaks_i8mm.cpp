// Row peaks for ARM CPUs with the 8-bit matrix instruction: SMMLA multiplies two rows of eight bytes by two rows of
// eight and adds the 2x2 result to four 32-bit lanes, so operands are packed as pairs of rows.
#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/block_scores/cpu/row_peaks.h"
#include "kernels/block_scores/cpu/row_peaks_variants.h"
#include "kernels/simd/arm_features.h"

namespace ei::kernels {
namespace {

struct I8mmPeaks {
  static constexpr int kRows = 8;
  static constexpr int kRun = 8;
  static constexpr int kPairs = 4;
  // [dim / 8, pair, 2, 8]
  static int64_t key_index(int key, int d, int) { return d / 8 * 64 + key * 8 + d % 8; }
  static int64_t query_index(int row, int d) { return d / 8 * 64 + row * 8 + d % 8; }
  struct Session {
    explicit Session(int) {}
  };

  struct Sums {
    int32x4_t at[kPairs][kPairs];  // [row pair][key pair], lanes {r0k0, r0k1, r1k0, r1k1}
  };

  // Of the usual sizes the compiler unrolls everything.
  template <typename Then>
  static inline __attribute__((always_inline)) void multiply(const int8_t* q, const int8_t* panel, int dim, Then then) {
    switch (dim) {
      case 64: return then(sums_of(q, panel, 64));
      case 128: return then(sums_of(q, panel, 128));
      default: return then(sums_of(q, panel, dim));
    }
  }

  static inline __attribute__((always_inline)) Sums sums_of(const int8_t* q, const int8_t* panel, int dim) {
    Sums sums;
    for (auto& row : sums.at)
      for (auto& lanes : row) lanes = vdupq_n_s32(0);
    for (int d = 0; d < dim; d += 8, q += 64, panel += 64) {
      int8x16_t rows[kPairs];
      int8x16_t keys[kPairs];
      for (int p = 0; p < kPairs; ++p) rows[p] = vld1q_s8(q + p * 16);
      for (int p = 0; p < kPairs; ++p) keys[p] = vld1q_s8(panel + p * 16);
      for (int r = 0; r < kPairs; ++r)
        for (int k = 0; k < kPairs; ++k) sums.at[r][k] = vmmlaq_s32(sums.at[r][k], rows[r], keys[k]);
    }
    return sums;
  }

  static void products(const int8_t* q, const int8_t* panel, int dim, float* out) {
    multiply(q, panel, dim, [out](const Sums& sums) {
      for (int k = 0; k < kPairs; ++k) {
        for (int r = 0; r < kPairs; r += 2) {
          const int32x4_t even = vuzp1q_s32(sums.at[r][k], sums.at[r + 1][k]);
          const int32x4_t odd = vuzp2q_s32(sums.at[r][k], sums.at[r + 1][k]);
          vst1q_f32(out + 2 * k * kRows + 2 * r, vcvtq_f32_s32(even));
          vst1q_f32(out + (2 * k + 1) * kRows + 2 * r, vcvtq_f32_s32(odd));
        }
      }
    });
  }

  static void peaks(const int8_t* q, const int8_t* panel, int dim, float* out) {
    multiply(q, panel, dim, [out](const Sums& sums) {
      int32x4_t best[kPairs];
      for (int r = 0; r < kPairs; ++r)
        best[r] = vmaxq_s32(vmaxq_s32(sums.at[r][0], sums.at[r][1]), vmaxq_s32(sums.at[r][2], sums.at[r][3]));
      vst1q_f32(out, vcvtq_f32_s32(vpmaxq_s32(best[0], best[1])));
      vst1q_f32(out + 4, vcvtq_f32_s32(vpmaxq_s32(best[2], best[3])));
    });
  }
};

}  // namespace

const PeakVariant& i8mm_peaks() {
  static constexpr PeakVariant kVariant = make_peak_variant<I8mmPeaks>("i8mm", "neonbf16", cpu_has_i8mm);
  return kVariant;
}

}  // namespace ei::kernels

#endif
