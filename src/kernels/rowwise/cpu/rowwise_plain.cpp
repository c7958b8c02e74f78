#include "kernels/rowwise/cpu/rowwise_loops.h"
#include "kernels/variants.h"

namespace ei::kernels {

const RowwiseVariant& plain_rowwise() {
  static constexpr RowwiseVariant kVariant = make_rowwise_variant("plain", [] { return true; });
  return kVariant;
}

}  // namespace ei::kernels
