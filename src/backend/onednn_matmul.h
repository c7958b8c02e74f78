// The dense provider through oneDNN: CPUs with AMX-BF16 or AVX512-BF16.
//
// W is kept as panels of 512 output rows, each in the blocked layout oneDNN asks for. A worker multiplies
// (row tile of x) × (a few panels) with a single-threaded primitive, so oneDNN's own threads never start. The cut into
// tiles and panels depends on M and N only; on x86 oneDNN chooses its code, and with it the order of summation, by the
// height of a tile.
#pragma once

#include "backend/dense_provider.h"

namespace ei {

bool onednn_matmul_fast(std::string_view isa);
// Elsewhere, when linked at all, it computes the same values in f32, slowly.
Result<std::unique_ptr<DenseProvider>> create_onednn_matmul(std::string_view isa);

}  // namespace ei
