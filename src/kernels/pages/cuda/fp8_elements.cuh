// Codes of a cache in fp8 (fp8_layout.h) inside kernels.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/pages/cuda/fp8_layout.h"

namespace ei::kernels::cuda {

// 2^exponent in f16.
__device__ __forceinline__ __half power_of_two(int32_t exponent) {
  const int32_t bits = exponent > Fp8Layout::kLeastExponent ? (exponent + 15) << 10 : 0x200;
  return __ushort_as_half(static_cast<unsigned short>(bits));
}

// Two codes as two elements of f16, without and with powers of two.
__device__ __forceinline__ uint32_t widen_codes(uint32_t codes) {
  const __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes & 0xffffu), __NV_E4M3);
  return static_cast<uint32_t>(raw.x) | static_cast<uint32_t>(raw.y) << 16;
}
__device__ __forceinline__ uint32_t widen_pair(uint32_t codes, __half2 scale) {
  const uint32_t bits = widen_codes(codes);
  const __half2 pair = __hmul2(*reinterpret_cast<const __half2*>(&bits), scale);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Eight codes of a row as eight elements.
__device__ __forceinline__ uint4 widen_eight(uint2 codes, int32_t exponent) {
  const __half2 scale = __half2half2(power_of_two(exponent));
  return make_uint4(widen_pair(codes.x, scale), widen_pair(codes.x >> 16, scale), widen_pair(codes.y, scale),
                    widen_pair(codes.y >> 16, scale));
}

// Four elements, already divided by the power of two of their row.
__device__ __forceinline__ uint32_t narrow_four(float a, float b, float c, float d) {
  const uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
  const uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, __NV_E4M3);
  return low | high << 16;
}

}  // namespace ei::kernels::cuda
