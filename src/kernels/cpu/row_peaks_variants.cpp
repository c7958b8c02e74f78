#include "kernels/cpu/row_peaks_variants.h"

namespace ei::kernels {

const std::vector<const PeakVariant*>& peak_variants() {
  static const std::vector<const PeakVariant*> variants = {
#if defined(__aarch64__)
    &i8mm_peaks(),
#endif
    &portable_peaks(),
  };
  return variants;
}

const PeakVariant& choose_peak(std::string_view isa) {
  for (const PeakVariant* variant : peak_variants())
    if (isa.empty() && variant->usable()) return *variant;
  return *peak_variants().back();
}

}  // namespace ei::kernels
