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

// What the angles of all positions have in common. The angle is advanced from pair to pair by multiplication in float,
// as llama.cpp does: at far positions the rounding of another order would turn the vectors by more than the parity
// tests allow.
struct RopeTurn {
  float step = 1;      // from one pair's angle to the next
  bool mixes = false;  // YaRN
  float low = 0;       // its correction range, in pairs
  float high = 0;
  float magnitude = 1;  // of cos and sin
};
RopeTurn rope_turn(const Rope& rope, int32_t dims);

// Angles evaluated on the host, for consecutive positions.
struct RopeAngles {
  std::vector<float> cos;  // [tokens, dims / 2]
  std::vector<float> sin;  // [tokens, dims / 2]
};
void fill_rope(const Rope& rope, int32_t dims, int32_t first_position, int64_t tokens, RopeAngles& out);

}  // namespace ei
