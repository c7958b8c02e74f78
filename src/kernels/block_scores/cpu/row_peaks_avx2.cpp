// Row peaks for AVX2: bytes widened to 16 bits, multiplied and added in pairs. A lane is a row, so that the best of
// eight keys is seven maxima of whole vectors.
#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/block_scores/cpu/row_peaks.h"
#include "kernels/block_scores/cpu/row_peaks_variants.h"
#include "kernels/simd/x86_features.h"

namespace ei::kernels {
namespace {

struct Avx2Peaks {
  static constexpr int kRows = 32;
  static constexpr int kRun = 2;
  static constexpr int kLanes = 8;
  // [dim / 2, 8 keys, 2] and [dim / 2, kRows, 2]
  static int64_t key_index(int key, int d, int) { return d / 2 * 16 + key * 2 + d % 2; }
  static int64_t query_index(int row, int d) { return d / 2 * (2 * kRows) + row * 2 + d % 2; }
  struct Session {
    explicit Session(int) {}
  };

  static void products(const int8_t* q, const int8_t* panel, int dim, float* out) {
    multiply(q, panel, dim, [&](int row, const __m256i* sums) {
      for (int key = 0; key < kPanelKeys; ++key)
        _mm256_storeu_ps(out + key * kRows + row, _mm256_cvtepi32_ps(sums[key]));
    });
  }

  static void peaks(const int8_t* q, const int8_t* panel, int dim, float* out) {
    multiply(q, panel, dim, [&](int row, const __m256i* sums) {
      __m256i best = sums[0];
      for (int key = 1; key < kPanelKeys; ++key) best = _mm256_max_epi32(best, sums[key]);
      _mm256_storeu_ps(out + row, _mm256_cvtepi32_ps(best));
    });
  }

 private:
  // use(row, sums): eight rows with all keys of the panel.
  template <typename Use>
  static inline __attribute__((always_inline)) void multiply(const int8_t* q, const int8_t* panel, int dim, Use use) {
    // The keys once for all rows: a pair is then broadcast straight from memory.
    alignas(32) int16_t keys[kPanelKeys * 2 * kMostDim];
    for (int i = 0; i < kPanelKeys * dim; i += 16)
      _mm256_store_si256(reinterpret_cast<__m256i*>(keys + i), widened(panel + i));
    for (int row = 0; row < kRows; row += kLanes) {
      __m256i sums[kPanelKeys];
      for (__m256i& sum : sums) sum = _mm256_setzero_si256();
      for (int d = 0; d < dim; d += 2) {
        const __m256i rows = widened(q + d * kRows + row * 2);
        for (int key = 0; key < kPanelKeys; ++key) {
          int32_t pair;
          std::memcpy(&pair, keys + d * kPanelKeys + key * 2, sizeof pair);
          sums[key] = _mm256_add_epi32(sums[key], _mm256_madd_epi16(rows, _mm256_set1_epi32(pair)));
        }
      }
      use(row, sums);
    }
  }

  static inline __attribute__((always_inline)) __m256i widened(const int8_t* from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
};

}  // namespace

const PeakVariant& avx2_peaks() {
  static constexpr PeakVariant kVariant = make_peak_variant<Avx2Peaks>("avx2", "avx2", cpu_has_avx2);
  return kVariant;
}

}  // namespace ei::kernels

#endif
