// The dense provider on our own packed bf16 kernels (kernels/products/gemm.h): ARM CPUs with BFMMLA, x86 ones with
// AMX-BF16 or AVX512-BF16.
#pragma once

#include "backend/dense_provider.h"

namespace ei {

bool bf16_matmul_fast(std::string_view isa);
Result<std::unique_ptr<DenseProvider>> create_bf16_matmul(std::string_view isa);

}  // namespace ei
