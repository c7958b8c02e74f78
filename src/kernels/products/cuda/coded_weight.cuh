// What the structs of weight types share: bytes of a block as numbers, and weights that are codes with a scale.
#pragma once

#include <cstdint>

#include "kernels/cuda/elements.cuh"
#include "kernels/products/cuda/matvec_cuda.h"

namespace ei::kernels::cuda {

__device__ inline float half_at(const uint8_t* bytes) { return __half2float(*reinterpret_cast<const __half*>(bytes)); }
__device__ inline int word16_at(const uint8_t* bytes) { return bytes[0] | bytes[1] << 8; }
__device__ inline unsigned word32_at(const uint8_t* bytes) {  // at any address
  return static_cast<unsigned>(word16_at(bytes)) | static_cast<unsigned>(word16_at(bytes + 2)) << 16;
}
// Of bytes whose low halves are the numbers 0 to 15 and whose high halves those from 16 on.
__device__ inline int nibble_of(const uint8_t* bytes, int i) { return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4; }

// weight = scale * code + offset
template <typename Type>
struct Coded {
  __device__ float weight(const uint8_t* block, int i) const {
    const auto& type = static_cast<const Type&>(*this);
    const float2 scale = type.scale(block, i);
    return scale.x * static_cast<float>(type.code(block, i)) + scale.y;
  }
};

}  // namespace ei::kernels::cuda
