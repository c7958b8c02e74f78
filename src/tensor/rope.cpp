#include "tensor/rope.h"

#include <algorithm>
#include <cmath>

namespace ei {

namespace {

// The pair whose wavelength makes `rotations` turns over the original context (YaRN's correction range).
float correction_pair(const Rope& rope, int32_t dims, float rotations) {
  constexpr float kPi = 3.14159265358979323846f;
  const float context = static_cast<float>(rope.original_context);
  return static_cast<float>(dims) * std::log(context / (rotations * 2.0f * kPi)) / (2.0f * std::log(rope.base));
}

}  // namespace

RopeTurn rope_turn(const Rope& rope, int32_t dims) {
  RopeTurn turn{.step = std::pow(rope.base, -2.0f / static_cast<float>(dims)),
                .mixes = rope.ext_factor != 0.0f,
                .magnitude = rope.attention_factor};
  if (turn.mixes) {
    turn.low = std::max(0.0f, std::floor(correction_pair(rope, dims, rope.beta_fast)));
    turn.high = std::min(static_cast<float>(dims - 1), std::ceil(correction_pair(rope, dims, rope.beta_slow)));
    turn.magnitude *= 1.0f + 0.1f * std::log(1.0f / rope.frequency_scale);
  }
  return turn;
}

void fill_rope(const Rope& rope, int32_t dims, int32_t first_position, int64_t tokens, RopeAngles& out) {
  const int32_t half = dims / 2;
  out.cos.resize(static_cast<size_t>(tokens * half));
  out.sin.resize(static_cast<size_t>(tokens * half));
  const RopeTurn turn = rope_turn(rope, dims);
  for (int64_t t = 0; t < tokens; ++t) {
    float angle = static_cast<float>(first_position + t);
    for (int32_t i = 0; i < half; ++i) {
      const float extrapolated = rope.factors.empty() ? angle : angle / rope.factors[static_cast<size_t>(i)];
      const float interpolated = rope.frequency_scale * extrapolated;
      float mixed = interpolated;
      if (turn.mixes) {
        const float ramp = (static_cast<float>(i) - turn.low) / std::max(0.001f, turn.high - turn.low);
        const float mix = (1.0f - std::min(1.0f, std::max(0.0f, ramp))) * rope.ext_factor;
        mixed = interpolated * (1.0f - mix) + extrapolated * mix;
      }
      out.cos[static_cast<size_t>(t * half + i)] = std::cos(mixed) * turn.magnitude;
      out.sin[static_cast<size_t>(t * half + i)] = std::sin(mixed) * turn.magnitude;
      angle *= turn.step;
    }
  }
}

}  // namespace ei
