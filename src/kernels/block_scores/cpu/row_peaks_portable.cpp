// Row peaks in plain loops over bytes: any CPU.
#include "kernels/block_scores/cpu/row_peaks.h"
#include "kernels/block_scores/cpu/row_peaks_variants.h"

namespace ei::kernels {
namespace {

struct PortablePeaks {
  static constexpr int kRows = 8;
  static constexpr int kRun = 8;
  // [dim / 8, 8 rows or keys, 8]
  static int64_t key_index(int key, int d, int) { return d / 8 * 64 + key * 8 + d % 8; }
  static int64_t query_index(int row, int d) { return d / 8 * 64 + row * 8 + d % 8; }
  struct Session {
    explicit Session(int) {}
  };

  static void products(const int8_t* q, const int8_t* panel, int dim, float* out) {
    int32_t sums[kPanelKeys][kRows] = {};
    for (int d = 0; d < dim; d += 8, q += 64, panel += 64) {
      // Two steps in 16 bits would overflow: products go to 32 bits at once.
      for (int key = 0; key < kPanelKeys; ++key) {
        for (int row = 0; row < kRows; ++row) {
          int32_t sum = 0;
          for (int i = 0; i < 8; ++i) sum += int32_t{q[row * 8 + i]} * int32_t{panel[key * 8 + i]};
          sums[key][row] += sum;
        }
      }
    }
    for (int key = 0; key < kPanelKeys; ++key)
      for (int row = 0; row < kRows; ++row) out[key * kRows + row] = static_cast<float>(sums[key][row]);
  }

  static void peaks(const int8_t* q, const int8_t* panel, int dim, float* out) {
    float all[kPanelKeys * kRows];
    products(q, panel, dim, all);
    for (int row = 0; row < kRows; ++row) {
      float high = all[row];
      for (int key = 1; key < kPanelKeys; ++key) high = std::max(high, all[key * kRows + row]);
      out[row] = high;
    }
  }
};

bool portable_usable() { return true; }

}  // namespace

const PeakVariant& portable_peaks() {
  static constexpr PeakVariant kVariant = make_peak_variant<PortablePeaks>("portable", "scalar", portable_usable);
  return kVariant;
}

}  // namespace ei::kernels
