#include "kernels/rowwise.h"

#include <array>

#include "kernels/cpu/variants.h"

namespace ei::kernels {
namespace {

const RowwiseVariant& chosen() {
  static const RowwiseVariant& variant = [&]() -> const RowwiseVariant& {
    for (const RowwiseVariant* one : rowwise_variants()) {
      if (one->usable()) return *one;
    }
    return plain_rowwise();
  }();
  return variant;
}

}  // namespace

std::span<const RowwiseVariant* const> rowwise_variants() {
#if defined(__x86_64__)
  static const std::array kVariants{&avx512_rowwise(), &avx2_rowwise(), &plain_rowwise()};
#else
  static const std::array kVariants{&plain_rowwise()};
#endif
  return kVariants;
}

void rms_norm(Matrix x, const float* gain, float eps, Matrix y, Range rows) {
  chosen().rms_norm(x, gain, eps, y, rows);
}
void add_rms_norm(Matrix x, Matrix sum, const float* gain, float eps, Matrix y, Range rows) {
  chosen().add_rms_norm(x, sum, gain, eps, y, rows);
}
void silu_multiply(Matrix gate, Matrix up, Matrix out, Range rows) { chosen().silu_multiply(gate, up, out, rows); }
void gelu_multiply(Matrix gate, Matrix up, Matrix out, Range rows) { chosen().gelu_multiply(gate, up, out, rows); }
void add_bias(const float* bias, Matrix y, Range rows) { chosen().add_bias(bias, y, rows); }
void softcap(Matrix x, float cap, Range rows) { chosen().softcap(x, cap, rows); }
void rotate_head(const RotateHead& params, float* head) { chosen().rotate_head(params, head); }
void convert_row(const float* from, void* to, DType type, int64_t count) {
  chosen().convert_row(from, to, type, count);
}

}  // namespace ei::kernels
