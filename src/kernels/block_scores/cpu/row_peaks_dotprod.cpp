// Row peaks for ARM CPUs with dot products of bytes (SDOT) but no matrix instruction: a lane is a row, four elements of
// a key are taken from a lane of its vector.
#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/block_scores/cpu/row_peaks.h"
#include "kernels/block_scores/cpu/row_peaks_variants.h"
#include "kernels/simd/arm_features.h"

namespace ei::kernels {
namespace {

struct DotPeaks {
  static constexpr int kRows = 8;
  static constexpr int kRun = 4;
  static constexpr int kVecs = 2;
  // [dim / 4, 8 keys or rows, 4]
  static int64_t key_index(int key, int d, int) { return d / 4 * 32 + key * 4 + d % 4; }
  static int64_t query_index(int row, int d) { return d / 4 * 32 + row * 4 + d % 4; }
  struct Session {
    explicit Session(int) {}
  };

  struct Sums {
    int32x4_t at[kPanelKeys][kVecs];
  };

  static inline __attribute__((always_inline)) Sums multiply(const int8_t* q, const int8_t* panel, int dim) {
    Sums sums;
    for (auto& key : sums.at)
      for (auto& lanes : key) lanes = vdupq_n_s32(0);
    for (int d = 0; d < dim; d += 4, q += 32, panel += 32) {
      const int8x16_t first = vld1q_s8(panel);
      const int8x16_t second = vld1q_s8(panel + 16);
      for (int v = 0; v < kVecs; ++v) {
        const int8x16_t rows = vld1q_s8(q + v * 16);
        sums.at[0][v] = vdotq_laneq_s32(sums.at[0][v], rows, first, 0);
        sums.at[1][v] = vdotq_laneq_s32(sums.at[1][v], rows, first, 1);
        sums.at[2][v] = vdotq_laneq_s32(sums.at[2][v], rows, first, 2);
        sums.at[3][v] = vdotq_laneq_s32(sums.at[3][v], rows, first, 3);
        sums.at[4][v] = vdotq_laneq_s32(sums.at[4][v], rows, second, 0);
        sums.at[5][v] = vdotq_laneq_s32(sums.at[5][v], rows, second, 1);
        sums.at[6][v] = vdotq_laneq_s32(sums.at[6][v], rows, second, 2);
        sums.at[7][v] = vdotq_laneq_s32(sums.at[7][v], rows, second, 3);
      }
    }
    return sums;
  }

  static void products(const int8_t* q, const int8_t* panel, int dim, float* out) {
    const Sums sums = multiply(q, panel, dim);
    for (int key = 0; key < kPanelKeys; ++key)
      for (int v = 0; v < kVecs; ++v) vst1q_f32(out + key * kRows + v * 4, vcvtq_f32_s32(sums.at[key][v]));
  }

  static void peaks(const int8_t* q, const int8_t* panel, int dim, float* out) {
    const Sums sums = multiply(q, panel, dim);
    for (int v = 0; v < kVecs; ++v) {
      int32x4_t best = sums.at[0][v];
      for (int key = 1; key < kPanelKeys; ++key) best = vmaxq_s32(best, sums.at[key][v]);
      vst1q_f32(out + v * 4, vcvtq_f32_s32(best));
    }
  }
};

}  // namespace

const PeakVariant& dotprod_peaks() {
  static constexpr PeakVariant kVariant = make_peak_variant<DotPeaks>("dotprod", "neonfp16", cpu_has_dotprod);
  return kVariant;
}

}  // namespace ei::kernels

#endif
