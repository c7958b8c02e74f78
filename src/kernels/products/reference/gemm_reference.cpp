#include "kernels/products/reference/gemm_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ei::kernels {

namespace {
double rounded(float value, DType to) {
  return static_cast<double>(to == DType::kF16 ? f16_to_f32(f32_to_f16(value)) : bf16_to_f32(f32_to_bf16(value)));
}

// Rounded to 8 bits in blocks of 32.
std::vector<float> rounded_blocks(const float* row, int64_t cols) {
  constexpr int64_t kBlock = 32;
  std::vector<float> out(static_cast<size_t>(cols));
  for (int64_t begin = 0; begin < cols; begin += kBlock) {
    const int64_t end = std::min(cols, begin + kBlock);
    float largest = 0;
    for (int64_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(row[k]));
    const float inverse = largest > 0 ? 127 / largest : 0;
    for (int64_t k = begin; k < end; ++k)
      out[static_cast<size_t>(k)] = std::nearbyint(row[k] * inverse) * (largest / 127);
  }
  return out;
}
}  // namespace

void reference_gemm_int8(Matrix x, const float* w, Matrix y) {
  for (int64_t column = 0; column < y.cols; ++column) {
    const std::vector<float> weights = rounded_blocks(w + column * x.cols, x.cols);
    for (int64_t row = 0; row < y.rows; ++row) {
      const std::vector<float> values = rounded_blocks(x.data + row * x.stride, x.cols);
      double sum = 0;
      for (size_t k = 0; k < values.size(); ++k)
        sum += static_cast<double>(values[k]) * static_cast<double>(weights[k]);
      y.data[row * y.stride + column] = static_cast<float>(sum);
    }
  }
}

void reference_gemm(Matrix x, const float* w, Matrix y, DType numbers) {
  for (int64_t row = 0; row < y.rows; ++row) {
    for (int64_t column = 0; column < y.cols; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < x.cols; ++k) {
        sum += rounded(x.data[row * x.stride + k], numbers) * rounded(w[column * x.cols + k], numbers);
      }
      y.data[row * y.stride + column] = static_cast<float>(sum);
    }
  }
}

}  // namespace ei::kernels
