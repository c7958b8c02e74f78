// Blocks of random bytes in any weight type, and what ggml reads in them.
#pragma once

#include <ggml.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/random.h"

namespace ei::testing {

struct RandomBlocks {
  std::vector<uint8_t> bytes;
  std::vector<float> weights;
};

// `count` weights, a multiple of the type's block. Whole blocks are drawn again until they are what a file may hold:
// numbers of at most 4.
inline RandomBlocks random_blocks(uint32_t ggml_type, int64_t count, Random& random) {
  const auto* traits = ggml_get_type_traits(static_cast<enum ggml_type>(ggml_type));
  RandomBlocks made;
  std::vector<uint8_t> block(traits->type_size);
  std::vector<float> weights(static_cast<size_t>(traits->blck_size));
  while (static_cast<int64_t>(made.weights.size()) < count) {
    bool usable = false;
    while (!usable) {
      for (uint8_t& byte : block) byte = static_cast<uint8_t>(random.below(256));
      if (ggml_type == GGML_TYPE_F32) {  // ggml has no function for these
        std::memcpy(weights.data(), block.data(), sizeof(float));
      } else {
        traits->to_float(block.data(), weights.data(), traits->blck_size);
      }
      usable = true;
      for (const float weight : weights) usable = usable && std::abs(weight) <= 4;
    }
    made.bytes.insert(made.bytes.end(), block.begin(), block.end());
    made.weights.insert(made.weights.end(), weights.begin(), weights.end());
  }
  return made;
}

}  // namespace ei::testing
