#include "kernels/products/reference/gemm_reference.h"

namespace ei::kernels {

namespace {
double rounded(float value, DType to) {
  return static_cast<double>(to == DType::kF16 ? f16_to_f32(f32_to_f16(value)) : bf16_to_f32(f32_to_bf16(value)));
}
}  // namespace

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
