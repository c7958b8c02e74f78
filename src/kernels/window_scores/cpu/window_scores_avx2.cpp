#if defined(__x86_64__)
#include "kernels/simd/vec_avx2.h"
#include "kernels/simd/x86_features.h"
#include "kernels/window_scores/cpu/attention_sums_loops.h"

namespace ei::kernels {

const WindowVariant& avx2_window() {
  static constexpr WindowVariant kVariant = make_window_variant<Vec8>("avx2", cpu_has_avx2);
  return kVariant;
}

}  // namespace ei::kernels
#endif
