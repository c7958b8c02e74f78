// Angles of the rotary embedding, evaluated on the host for the positions of one chunk.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"

namespace ei::model {

struct RopeAngles {
  std::vector<float> cos;  // [tokens, dims / 2]
  std::vector<float> sin;  // [tokens, dims / 2]
};

// In the order of operations of tensor/rope.h.
void fill_rope(const Rope& rope, int32_t dims, int32_t first_position, int64_t tokens, RopeAngles& out);

}  // namespace ei::model
