#include "tensor/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace ei {

const char* dtype_name(DType type) {
  switch (type) {
    case DType::kF32: return "f32";
    case DType::kF16: return "f16";
    case DType::kBF16: return "bf16";
    case DType::kQ8_0: return "q8_0";
    case DType::kF8: return "fp8";
  }
  return "?";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DType type : kDTypes) {
    if (name == dtype_name(type)) return type;
  }
  return std::nullopt;
}

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);  // quiet NaN
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds beyond 65504
  if (magnitude < 0x38800000u) {
    // Subnormal half: adding 0.5 aligns the mantissa so that the hardware rounds it to nearest even.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint8_t f32_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // 448 and more
  if (magnitude < 0x3c800000u) {
    // Below 2^-6: adding 2^14 leaves steps of 2^-9, and the hardware rounds to nearest even.
    const float aligned = std::bit_cast<float>(magnitude) + 16384.0f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x46800000u));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded - 0x3c000000u) >> 20));
}

float e4m3_to_f32(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t magnitude = code & 0x7fu;
  if (magnitude == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude < 8) return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(magnitude) / 512) | sign);
  return std::bit_cast<float>(sign | ((magnitude << 20) + 0x3c000000u));
}

float load_element(const void* data, DType type, int64_t index) {
  if (type == DType::kF32) return static_cast<const float*>(data)[index];
  if (type == DType::kQ8_0) {
    const Q8Block& block = static_cast<const Q8Block*>(data)[index / kQ8Elements];
    return f16_to_f32(block.scale) * static_cast<float>(block.codes[index % kQ8Elements]);
  }
  const uint16_t bits = static_cast<const uint16_t*>(data)[index];
  return type == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

void load_row(const void* data, DType type, int64_t first, int64_t count, float* to) {
  const auto each = [&](auto of) {
    for (int64_t i = 0; i < count; ++i) to[i] = of(first + i);
  };
  if (type == DType::kF32) return each([&](int64_t i) { return static_cast<const float*>(data)[i]; });
  if (type == DType::kBF16) return each([&](int64_t i) { return bf16_to_f32(static_cast<const uint16_t*>(data)[i]); });
  each([&](int64_t i) { return load_element(data, type, i); });
}

void store_element(void* data, DType type, int64_t index, float value) {
  EI_CHECK(type != DType::kQ8_0);
  if (type == DType::kF32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<uint16_t*>(data)[index] = type == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
  }
}

void store_row(const float* from, void* to, DType type, int64_t count) {
  if (type != DType::kQ8_0) {
    for (int64_t i = 0; i < count; ++i) store_element(to, type, i, from[i]);
    return;
  }
  EI_CHECK_EQ(count % kQ8Elements, 0);
  for (auto* block = static_cast<Q8Block*>(to); count > 0; ++block, from += kQ8Elements, count -= kQ8Elements) {
    float largest = 0;
    for (int64_t i = 0; i < kQ8Elements; ++i) largest = std::max(largest, std::abs(from[i]));
    block->scale = f32_to_f16(largest / 127.0f);
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    // What is not a number has no code; the bounds keep such a row from being undefined.
    for (int64_t i = 0; i < kQ8Elements; ++i)
      block->codes[i] = static_cast<int8_t>(std::nearbyint(std::max(-127.0f, std::min(127.0f, from[i] * inverse))));
  }
}

}  // namespace ei
