// The steps around the method's decision where blocks are ranked by what rows attend to: SampleStep measures the
// attention of sampled rows before it, RatingStep rates blocks after it, SelectStep takes the best of every list.
#pragma once

#include "policy/prefill/method.h"
#include "sparse/layer_turn.h"

namespace ei::sparse {

class SampleStep {
 public:
  Status reserve(Stream& stream, const PlannerShape& shape, const kernels::BlockRows& rows,
                 const policy::PrefillMethod& method);
  // `ratings`: of the step below, overwritten.
  void record(Stream& stream, const LayerTurn& turn, float* ratings) const;
  void on_host(int layer, std::span<const policy::SegmentPlace> places, policy::LayerRecords& run) const;

 private:
  Sampling sampling_ = Sampling::kNone;
  // [kv_heads, num_segments] a layer, like all that follows.
  LayerArray<BlockRanking> sampled_rows_;
  LayerArray<AttentionSample> samples_;  // what was found
};

class RatingStep {
 public:
  // `by_peaks`: of the backend's key index; otherwise, slowly, of the keys themselves.
  Status reserve(Stream& stream, const PlannerShape& shape, const kernels::BlockRows& rows, bool by_peaks);
  // The rankings on which the method decided go to the kernels.
  void on_host(int layer, const policy::LayerRecords& run) const;
  void record(Stream& stream, const LayerTurn& turn, const policy::PrefillMethod& method) const;
  float* values() const { return ranks_.data; }  // [kv_heads * num_segments, blocks]

 private:
  void rate_peaks(Stream& stream, const LayerTurn& turn, const policy::PrefillMethod& method) const;
  void score_rows(Stream& stream, const LayerTurn& turn, const policy::PrefillMethod& method) const;

  bool by_peaks_ = false;
  Matrix ranks_;
  LayerArray<BlockRanking> rankings_;
};

class SelectStep {
 public:
  Status reserve(Stream& stream, const PlannerShape& shape, const kernels::BlockRows& rows);
  // The counts of the laid out plan go to the kernel.
  void on_host(int layer, const BlockPlan& plan) const;
  // `wanted`: the host reads the blocks.
  void record(Stream& stream, const LayerTurn& turn, const float* values, BlockPlan& plan, bool wanted) const;

 private:
  LayerArray<int32_t> counts_;
};

}  // namespace ei::sparse
