// How a cache in fp8 lies inside a page on a GPU. A block of 8 keys is contiguous: 8 rows of K, 8 of V, head_dim codes
// each (E4M3), then 16 bytes of exponents, those of K before those of V. An element is its code times 2^exponent of its
// row. Exponents are such that f16 holds every element exactly: kernels that take 16 bits read a copy in f16.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/kv_layout.h"

namespace ei::kernels::cuda {

struct Fp8Layout {
  static constexpr int32_t kPiece = 16;           // codes that are moved together; divides head_dim
  static constexpr size_t kPageMultiple = 256;    // bytes
  static constexpr float kLargest = 448;          // of E4M3
  static constexpr int32_t kLeastExponent = -15;  // the smallest code, 2^-9, becomes f16's smallest number
  static constexpr int32_t kMostExponent = 7;     // 448 * 2^7 is below f16's largest; what is larger is cut there

  int32_t head_dim = 0;

  EI_HOST_DEVICE constexpr int32_t half_bytes() const { return kBlockKeys * head_dim; }
  EI_HOST_DEVICE constexpr int32_t block_bytes() const { return 2 * half_bytes() + 2 * kBlockKeys; }
  EI_HOST_DEVICE constexpr int64_t page_bytes(int64_t page_slots) const {
    return page_slots / kBlockKeys * block_bytes();
  }
  // Bytes from the beginning of a page to the codes of a row, and to its exponent.
  EI_HOST_DEVICE constexpr int64_t row(int64_t slot, bool value) const {
    return slot / kBlockKeys * block_bytes() + (value ? half_bytes() : 0) + slot % kBlockKeys * head_dim;
  }
  EI_HOST_DEVICE constexpr int64_t exponent(int64_t slot, bool value) const {
    return slot / kBlockKeys * block_bytes() + 2 * half_bytes() + (value ? kBlockKeys : 0) + slot % kBlockKeys;
  }
  // The least exponent that keeps `largest`, the row's largest size, inside the codes.
  EI_HOST_DEVICE static int32_t exponent_for(float largest) {
    const float most = largest / kLargest;
    if (!(most < 128.0f)) return kMostExponent;  // infinity and NaN too
    if (!(most > 0)) return kLeastExponent;
    int exponent = 0;
    const float part = std::frexp(most, &exponent);  // most = part * 2^exponent, part in [0.5, 1)
    if (part == 0.5f) --exponent;
    return exponent < kLeastExponent ? kLeastExponent : exponent;
  }
};

// Rows of keys or values in f16 out of the bytes of a page on the host, or into them.
void gather_fp8_rows(const Fp8Layout& layout, const void* page, int64_t count, bool values, void* rows);
void scatter_fp8_rows(const Fp8Layout& layout, const void* rows, int64_t count, bool values, void* page);

}  // namespace ei::kernels::cuda
