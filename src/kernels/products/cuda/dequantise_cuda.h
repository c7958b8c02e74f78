// Weights as model files hold them, to bf16 or f32 on the GPU. Launches only enqueue; `stream` is a cudaStream_t.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/products/cuda/matvec_cuda.h"
#include "tensor/dtype.h"

namespace ei::kernels::cuda {

// Whether there is a kernel for this ggml type; others are decoded on the host.
bool dequantises(uint32_t ggml_type);
// out[i] = scale * weight i of `count`, a multiple of the type's block, from the bytes at `from` (16-byte aligned). out
// is bf16 or f32.
Status launch_dequantise(const FileType& from_type, const void* from, int64_t count, float scale, DType type, void* out,
                         void* stream);

}  // namespace ei::kernels::cuda
