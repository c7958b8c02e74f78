// Rows of numbers in 8 bits (E4M3) with a scale each, for products on the tensor cores. No CUDA header is needed to
// include this.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/cuda/device_rows.h"

namespace ei::kernels::cuda {

// Row r is scales[r] * codes[r]; cols is a multiple of 16.
struct Fp8Rows {
  void* codes = nullptr;  // [rows, cols]
  float* scales = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
};
inline bool fp8_takes(int64_t cols) { return cols % 16 == 0; }
inline int64_t fp8_code_bytes(int64_t rows, int64_t cols) { return (rows * cols + 255) / 256 * 256; }
inline int64_t fp8_bytes(int64_t rows, int64_t cols) {
  return fp8_code_bytes(rows, cols) + (rows * static_cast<int64_t>(sizeof(float)) + 255) / 256 * 256;
}
// In so many bytes at `memory`.
inline Fp8Rows fp8_rows(void* memory, int64_t rows, int64_t cols) {
  auto* bytes = static_cast<char*>(memory);
  return {memory, reinterpret_cast<float*>(bytes + fp8_code_bytes(rows, cols)), rows, cols};
}

// The largest number of a row becomes the largest that there is in 8 bits.
Status launch_to_fp8(const DeviceRows& from, const Fp8Rows& to, void* stream);

}  // namespace ei::kernels::cuda
