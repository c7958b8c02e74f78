// For tests of the planner: what another planner has measured and chosen, given to one that reads something else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sparse/given.h"
#include "sparse/planner.h"

namespace ei::sparse {

class RememberedPlan final : public Given {
 public:
  RememberedPlan(const Planner& planner, bool names_blocks) : planner_(planner), names_blocks_(names_blocks) {}
  bool names_blocks() const override { return names_blocks_; }
  AttentionSample sample(int layer, int32_t segment, size_t kv_head) const override {
    return head(layer, segment, kv_head).sample;
  }
  std::span<const int32_t> blocks(int layer, int32_t segment, size_t kv_head) const override {
    return head(layer, segment, kv_head).chosen;
  }

 private:
  const policy::HeadRecord& head(int layer, int32_t segment, size_t kv_head) const {
    return planner_.records(layer)[static_cast<size_t>(segment)].heads[kv_head];
  }
  const Planner& planner_;
  bool names_blocks_;
};

}  // namespace ei::sparse
