#include "kernels/attention/attention.h"

#include "kernels/attention/reference/attention_scalar.h"
#include "kernels/variants.h"

namespace ei::kernels {

const std::vector<const AttentionVariant*>& attention_variants() {
  static const std::vector<const AttentionVariant*> variants = {
#if defined(__aarch64__)
    &neonbf16_attention(),
    &neonfp16_attention(),
    &neon_attention(),
#elif defined(__x86_64__)
    &amx_attention(),
    &avx512bf16_attention(),
    &avx512_attention(),
    &avx2_attention(),
#endif
    &scalar_attention(),
  };
  return variants;
}

const AttentionVariant* choose_attention(DType key_type, DType value_type, std::string_view isa) {
  bool allowed = isa.empty();
  for (const AttentionVariant* variant : attention_variants()) {
    allowed = allowed || variant->name == isa;
    if (allowed && variant->usable() && variant->accepts(key_type, value_type)) return variant;
  }
  return nullptr;
}

}  // namespace ei::kernels
