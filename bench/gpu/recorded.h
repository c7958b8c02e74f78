// Recorded: what the attention of a small model was like while it read a text, scaled to the shape of a larger one.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/session.h"
#include "policy/prefill/method.h"
#include "sparse/given.h"

namespace ei::bench {

class Recorded final : public sparse::Given {
 public:
  // Of a session that has read a text with a planner that kept its blocks. `layers`, `kv_heads` and `segments` of what
  // it is scaled to.
  Recorded(const Session& read, int layers, int kv_heads, int32_t segments);

  // What it is to stand for.
  void names_blocks(bool names) { names_blocks_ = names; }

  bool names_blocks() const override { return names_blocks_; }
  AttentionSample sample(int layer, int32_t segment, size_t kv_head) const override;
  std::span<const int32_t> blocks(int layer, int32_t segment, size_t kv_head) const override;

  // Share of the kv_heads, over all segments that choose, that are of this type.
  double share_of(policy::HeadType type) const;

 private:
  size_t source_layer(int layer) const;

  std::vector<policy::LayerRecords> records_;             // of the layers that were sampled
  std::vector<std::vector<std::vector<int32_t>>> lists_;  // [source layer][segment * heads + head], stretched
  int layers_;
  size_t heads_;         // of the source
  int32_t stretch_ = 1;  // segments, and blocks, for each one that was recorded
  bool names_blocks_ = false;
};

}  // namespace ei::bench
