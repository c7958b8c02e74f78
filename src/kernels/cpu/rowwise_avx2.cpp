#if defined(__x86_64__)
#include "kernels/cpu/rowwise_loops.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/x86_features.h"

namespace ei::kernels {

const RowwiseVariant& avx2_rowwise() {
  static constexpr RowwiseVariant kVariant = make_rowwise_variant("avx2", cpu_has_avx2);
  return kVariant;
}

}  // namespace ei::kernels
#endif
