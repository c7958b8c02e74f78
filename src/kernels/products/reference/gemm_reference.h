// The reference of gemm.h: slow, obvious, sums in double. The oracle of every faster twin.
#pragma once

#include "tensor/dtype.h"
#include "tensor/matrix.h"

namespace ei::kernels {

// y = x W^T with both inputs rounded to bf16 or f16; w is [y.cols, x.cols], dense.
void reference_gemm(Matrix x, const float* w, Matrix y, DType numbers = DType::kBF16);
// The same with both rounded to 8 bits, in blocks of 32 with a scale each.
void reference_gemm_int8(Matrix x, const float* w, Matrix y);

}  // namespace ei::kernels
