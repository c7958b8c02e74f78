#include "kernels/rowwise/rowwise.h"

#include <algorithm>
#include <array>

#include "kernels/variants.h"

namespace ei::kernels {
std::span<const RowwiseVariant* const> rowwise_variants() {
#if defined(__x86_64__)
  static const std::array kVariants{&avx512_rowwise(), &avx2_rowwise(), &plain_rowwise()};
#else
  static const std::array kVariants{&plain_rowwise()};
#endif
  return kVariants;
}

const RowwiseVariant& choose_rowwise(std::string_view isa) {
  const std::span<const RowwiseVariant* const> all = rowwise_variants();
  if (isa == "scalar") return *all.back();
  // A name that only attention variants have (AMX, NEON) leaves the whole list.
  const auto named = std::find_if(all.begin(), all.end(), [&](const auto* variant) { return variant->name == isa; });
  const auto found = std::find_if(named == all.end() ? all.begin() : named, all.end(),
                                  [](const RowwiseVariant* variant) { return variant->usable(); });
  return **found;  // the last is usable anywhere
}

}  // namespace ei::kernels
