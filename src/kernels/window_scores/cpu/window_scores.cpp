#include "kernels/window_scores/cpu/window_scores.h"

#include "kernels/attention/attention.h"
#include "kernels/simd/vec_emulated.h"
#include "kernels/window_scores/cpu/attention_sums_loops.h"

namespace ei::kernels {
namespace {

bool scalar_usable() { return true; }

// One lane at a time takes heads of any size.
constexpr WindowVariant kScalar =
    make_window_variant<VecEmulated<8>, FloatProduct<VecEmulated<1>>>("scalar", scalar_usable);

}  // namespace

const std::vector<const WindowVariant*>& window_variants() {
  static const std::vector<const WindowVariant*> variants = {
#if defined(__aarch64__)
    &neonbf16_window(),
    &neon_window(),
#elif defined(__x86_64__)
    &avx2_window(),
#endif
    &kScalar,
  };
  return variants;
}

const WindowVariant& choose_window(std::string_view isa, const KvView& kv) {
  // Attention has variants of more names, in the same order.
  bool allowed = isa.empty();
  for (const AttentionVariant* attention : attention_variants()) {
    allowed = allowed || attention->name == isa;
    for (const WindowVariant* variant : window_variants())
      if (allowed && variant->name == attention->name && variant->usable() && variant->accepts(kv)) return *variant;
  }
  return kScalar;
}

}  // namespace ei::kernels
