#include <algorithm>

#include "kernels/pages/cuda/fp8_layout.h"
#include "tensor/dtype.h"

namespace ei::kernels::cuda {

void gather_fp8_rows(const Fp8Layout& layout, const void* page, int64_t count, bool values, void* rows) {
  const auto* from = static_cast<const uint8_t*>(page);
  auto* to = static_cast<uint16_t*>(rows);
  for (int64_t slot = 0; slot < count; ++slot) {
    const uint8_t* codes = from + layout.row(slot, values);
    const auto exponent = static_cast<int8_t>(from[layout.exponent(slot, values)]);
    for (int32_t d = 0; d < layout.head_dim; ++d)
      to[slot * layout.head_dim + d] = f32_to_f16(std::ldexp(e4m3_to_f32(codes[d]), exponent));
  }
}

void scatter_fp8_rows(const Fp8Layout& layout, const void* rows, int64_t count, bool values, void* page) {
  const auto* from = static_cast<const uint16_t*>(rows);
  auto* to = static_cast<uint8_t*>(page);
  for (int64_t slot = 0; slot < count; ++slot) {
    const uint16_t* row = from + slot * layout.head_dim;
    float largest = 0;
    for (int32_t d = 0; d < layout.head_dim; ++d) largest = std::max(largest, std::fabs(f16_to_f32(row[d])));
    const int32_t exponent = Fp8Layout::exponent_for(largest);
    uint8_t* codes = to + layout.row(slot, values);
    for (int32_t d = 0; d < layout.head_dim; ++d) codes[d] = f32_to_e4m3(std::ldexp(f16_to_f32(row[d]), -exponent));
    to[layout.exponent(slot, values)] = static_cast<uint8_t>(static_cast<int8_t>(exponent));
  }
}

}  // namespace ei::kernels::cuda
