#include "kernels/products/reference/gemm_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/dtype.h"

namespace ei::kernels {

namespace {
// To 8 bits in blocks of 32 with a scale each.
void round_blocks(std::vector<float>& row) {
  constexpr size_t kBlock = 32;
  for (size_t begin = 0; begin < row.size(); begin += kBlock) {
    const size_t end = std::min(row.size(), begin + kBlock);
    float largest = 0;
    for (size_t k = begin; k < end; ++k) largest = std::max(largest, std::abs(row[k]));
    const float inverse = largest > 0 ? 127 / largest : 0;
    for (size_t k = begin; k < end; ++k) row[k] = std::nearbyint(row[k] * inverse) * (largest / 127);
  }
}

std::vector<float> rounded(const float* from, int64_t cols, std::string_view numbers) {
  std::vector<float> row(from, from + cols);
  if (numbers == "int8") {
    round_blocks(row);
    return row;
  }
  for (float& value : row) value = numbers == "fp16" ? f16_to_f32(f32_to_f16(value)) : bf16_to_f32(f32_to_bf16(value));
  return row;
}
}  // namespace

void reference_gemm(Matrix x, const float* w, Matrix y, std::string_view numbers) {
  for (int64_t row = 0; row < y.rows; ++row) {
    const std::vector<float> values = rounded(x.data + row * x.stride, x.cols, numbers);
    for (int64_t column = 0; column < y.cols; ++column) {
      const std::vector<float> weights = rounded(w + column * x.cols, x.cols, numbers);
      double sum = 0;
      for (size_t k = 0; k < values.size(); ++k)
        sum += static_cast<double>(values[k]) * static_cast<double>(weights[k]);
      y.data[row * y.stride + column] = static_cast<float>(sum);
    }
  }
}

}  // namespace ei::kernels
