// MidrangeStep: scores of the segments' mid-range queries against the extremes of blocks, their probabilities and their
// entropy, as published.
#pragma once

#include "policy/prefill/method.h"
#include "sparse/block_index.h"
#include "sparse/layer_turn.h"

namespace ei::sparse {

class MidrangeStep {
 public:
  Status reserve(Stream& stream, const PlannerShape& shape, const kernels::BlockRows& rows,
                 const policy::PrefillMethod& method);
  // `follows`: the planned layer before has been recorded in this chunk.
  void record(Stream& stream, const LayerTurn& turn, const policy::PrefillMethod& method, const BlockIndex& index,
              bool follows) const;
  void on_host(int layer, policy::LayerRecords& run) const;
  // What blocks are ranked by, [kv_heads * num_segments, blocks].
  const float* values() const { return ranks_probabilities_ ? probabilities_.data : scores_.data; }

 private:
  Matrix representatives_;  // [num_segments, heads * head_dim]
  Matrix scores_;           // [kv_heads * num_segments, blocks], like the next one
  Matrix probabilities_;
  bool ranks_probabilities_ = false;
  bool covers_ = false;
  LayerArray<float> entropy_;   // [kv_heads, num_segments] a layer, like the next one
  LayerArray<float> covering_;  // blocks that hold the share that the method covers
};

}  // namespace ei::sparse
