// Rounding rows of floats to bf16 for the oneDNN matmul. Vector twins of f32_to_bf16 (tensor/dtype.h), for finite
// input.
#pragma once

#include <cstdint>

namespace ei::onednn {

void round_to_bf16(const float* from, uint16_t* to, int64_t count);
// The same values kept as floats; from == to is allowed.
void round_in_f32(const float* from, float* to, int64_t count);

}  // namespace ei::onednn
