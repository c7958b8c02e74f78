#include "base/top_indices.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace ei {
namespace {

// Larger key = earlier in the order. The upper half orders the floats, the lower half prefers small indices.
uint64_t order_key(float value, uint32_t index) {
  const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);  // -0 becomes +0: they are equal values
  uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  if (std::isnan(value)) ordered = 0;
  return uint64_t{ordered} << 32 | (0xffffffffu - index);
}

}  // namespace

void append_top_indices(std::span<const float> values, int64_t count, std::vector<uint64_t>& scratch,
                        std::vector<int32_t>& out) {
  const int64_t size = static_cast<int64_t>(values.size());
  if (count <= 0) return;
  const size_t begin = out.size();
  if (count >= size) {
    for (int64_t i = 0; i < size; ++i) out.push_back(static_cast<int32_t>(i));
    return;
  }
  scratch.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) scratch[i] = order_key(values[i], static_cast<uint32_t>(i));
  std::nth_element(scratch.begin(), scratch.begin() + (count - 1), scratch.end(), std::greater<>());
  for (size_t i = 0; i < static_cast<size_t>(count); ++i)
    out.push_back(static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(scratch[i])));
  std::sort(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
}

}  // namespace ei
