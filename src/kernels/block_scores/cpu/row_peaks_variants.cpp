#include "kernels/block_scores/cpu/row_peaks_variants.h"

#include "kernels/attention/attention.h"

namespace ei::kernels {

const std::vector<const PeakVariant*>& peak_variants() {
  static const std::vector<const PeakVariant*> variants = {
#if defined(__aarch64__)
    &i8mm_peaks(),
    &dotprod_peaks(),
#elif defined(__x86_64__)
    &amx_peaks(),
    &avx512_peaks(),
    &avx2_peaks(),
#endif
    &portable_peaks(),
  };
  return variants;
}

const PeakVariant& choose_peak(std::string_view isa) {
  bool allowed = isa.empty();
  for (const AttentionVariant* attention : attention_variants()) {
    allowed = allowed || attention->name == isa;
    for (const PeakVariant* variant : peak_variants())
      if (allowed && variant->attention == attention->name && variant->usable()) return *variant;
  }
  return *peak_variants().back();
}

}  // namespace ei::kernels
