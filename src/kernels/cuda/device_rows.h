// Rows of activations on a GPU, in f32 or bf16, and what the launches of every kernel there share. No CUDA header is
// needed to include this.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "tensor/dtype.h"

namespace ei::kernels::cuda {

// [rows, cols] with `stride` elements between the starts of two rows; f32 or bf16.
struct DeviceRows {
  void* data = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
};

// What the runtime answered, as an error of ours: kMemory or kDevice; the one way for all that is launched. The runtime
// forgets it. `code` is a cudaError_t.
Status cuda_status(int code, const char* what);
// Of the launch just made.
Status launched(const char* what);

}  // namespace ei::kernels::cuda
