#if defined(__x86_64__)
#include "kernels/cpu/vec_avx2.h"
#include "kernels/cpu/window_scores_loops.h"
#include "kernels/cpu/x86_features.h"

namespace ei::kernels {

const WindowVariant& avx2_window() {
  static constexpr WindowVariant kVariant = make_window_variant<Vec8>("avx2", cpu_has_avx2);
  return kVariant;
}

}  // namespace ei::kernels
#endif
