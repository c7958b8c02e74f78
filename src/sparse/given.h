// Given: what the attention of another model was like, in place of what a planner would measure. For timings with
// random weights, whose heads attend to everything alike.
#pragma once

#include <cstdint>
#include <span>

#include "plan/block_ranking.h"

namespace ei::sparse {

class Given {
 public:
  virtual ~Given() = default;
  // Does it name the blocks? Then nothing is measured and nothing chosen; otherwise samples alone are replaced, and
  // what follows from them is measured, decided and chosen as ever.
  virtual bool names_blocks() const = 0;
  // A sample of the attention of a kv_head in a segment.
  virtual AttentionSample sample(int layer, int32_t segment, size_t kv_head) const = 0;
  // Blocks before the segment, ascending.
  virtual std::span<const int32_t> blocks(int layer, int32_t segment, size_t kv_head) const = 0;
};

}  // namespace ei::sparse
