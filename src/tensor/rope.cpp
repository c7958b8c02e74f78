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

}  // namespace ei
