// Row peaks in the compiler's portable vectors of floats: any CPU. Lanes are rows, so that the best of eight keys needs
// no step across lanes.
#include "kernels/cpu/row_peaks.h"
#include "kernels/cpu/row_peaks_variants.h"

namespace ei::kernels {
namespace {

struct PortablePeaks {
  using Element = float;
  static constexpr int kRows = 8;
  static int64_t key_index(int key, int d, int) { return d * kPanelKeys + key; }
  static int64_t query_index(int row, int d, int) { return d * kRows + row; }

  static void products(const float* q, const float* panel, int dim, float* out) {
    Wide sums[kPanelKeys] = {};
    for (int d = 0; d < dim; ++d) {
      Wide rows;
      std::memcpy(&rows, q + d * kRows, sizeof rows);
      for (int key = 0; key < kPanelKeys; ++key) sums[key] += rows * panel[d * kPanelKeys + key];
    }
    std::memcpy(out, sums, sizeof sums);
  }

  static void peaks(const float* q, const float* panel, int dim, float* out) {
    float all[kPanelKeys * kRows];
    products(q, panel, dim, all);
    for (int row = 0; row < kRows; ++row) {
      float high = all[row];
      for (int key = 1; key < kPanelKeys; ++key) high = std::max(high, all[key * kRows + row]);
      out[row] = high;
    }
  }
};

bool always() { return true; }

}  // namespace

const PeakVariant& portable_peaks() {
  static constexpr PeakVariant kVariant = make_peak_variant<PortablePeaks>("portable", always);
  return kVariant;
}

}  // namespace ei::kernels
