// Rotary embedding as a model file states it. Plain data: model reads it, backends turn vectors by it.
#pragma once

#include <cstdint>
#include <vector>

namespace ei {

// The angle of pair i at position p is p * base^(-2i/dims), scaled as below.
struct Rope {
  enum class Scaling : uint8_t { kNone, kLinear, kYarn };
  float base = 10000.0f;
  float frequency_scale = 1.0f;  // 1 / factor
  Scaling scaling = Scaling::kNone;
  int32_t original_context = 0;
  float ext_factor = 0.0f;  // YaRN: 1 mixes interpolated and extrapolated angles
  float attention_factor = 1.0f;
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  std::vector<float> factors;  // [dims / 2] divisors per pair (Llama 3), or empty
};

}  // namespace ei
