#include "kernels/window_scores/cpu/window_scores.h"

#include <algorithm>

#include "kernels/simd/vec_emulated.h"
#include "kernels/window_scores/cpu/window_scores_loops.h"

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
  const std::vector<const WindowVariant*>& all = window_variants();
  // A name that only attention variants have (AVX-512, AMX) leaves the whole list.
  const auto named = std::find_if(all.begin(), all.end(), [&](const auto* variant) { return variant->name == isa; });
  for (auto variant = named == all.end() ? all.begin() : named; variant != all.end(); ++variant)
    if ((*variant)->usable() && (*variant)->accepts(kv)) return **variant;
  return kScalar;
}

}  // namespace ei::kernels
