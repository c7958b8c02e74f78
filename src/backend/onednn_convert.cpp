#include "backend/onednn_convert.h"

#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ei::onednn {
namespace {

// Round to nearest even on the bits: add half of the last kept place, minus one when that place is even.
inline uint32_t rounded_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return bits + 0x7fffu + ((bits >> 16) & 1u);
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) int64_t round_avx512(const float* from, uint16_t* to,
                                                                                     int64_t count) {
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m512bh pair = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + 16), _mm512_loadu_ps(from + i));
    __builtin_memcpy(to + i, &pair, sizeof(pair));
  }
  return i;
}
#endif

}  // namespace

void round_to_bf16(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16")) i = round_avx512(from, to, count);
#endif
  for (; i < count; ++i) to[i] = static_cast<uint16_t>(rounded_bits(from[i]) >> 16);
}

void round_in_f32(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(rounded_bits(from[i]) & 0xffff0000u);
}

}  // namespace ei::onednn
