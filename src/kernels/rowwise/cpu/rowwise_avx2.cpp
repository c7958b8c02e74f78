#if defined(__x86_64__)
#include "kernels/rowwise/cpu/rowwise_loops.h"
#include "kernels/simd/x86_features.h"
#include "kernels/variants.h"

namespace ei::kernels {

const RowwiseVariant& avx2_rowwise() {
  static constexpr RowwiseVariant kVariant = make_rowwise_variant("avx2", cpu_has_avx2);
  return kVariant;
}

}  // namespace ei::kernels
#endif
