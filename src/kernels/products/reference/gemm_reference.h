// The reference of gemm.h: slow, obvious, sums in double. The oracle of every faster twin.
#pragma once

#include <string_view>

#include "tensor/matrix.h"

namespace ei::kernels {

// y = x W^T with both inputs rounded as GemmKernel::numbers says; w is [y.cols, x.cols], dense.
void reference_gemm(Matrix x, const float* w, Matrix y, std::string_view numbers);

}  // namespace ei::kernels
