#include "model/rope.h"

#include <algorithm>
#include <cmath>

namespace ei::model {

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

}  // namespace ei::model
