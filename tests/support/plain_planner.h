// A prompt planned without streams, steps or an index: the references of the kernels called one after the other, in
// chunks as large as the method allows. Slow and obvious; what the planner must come to as well.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/block_scores/reference/block_scores_reference.h"
#include "policy/prefill/walk.h"
#include "support/random_kv.h"

namespace ei::testing {

class PlainPlanner {
 public:
  // One layer of random keys and queries each, all of one shape.
  PlainPlanner(const policy::PrefillOptions& options, const policy::PrefillShape& shape,
               std::vector<kernels::RandomAttention*> layers)
      : options_(options), layers_(std::move(layers)), walk_(policy::make_prefill_method(options, shape), shape) {}

  void read() {
    const int64_t tokens = layers_.front()->shape().tokens;
    walk_.begin_prompt(tokens);
    walk_.keep_blocks(true);
    for (int64_t first = 0; first < tokens;) {
      const int64_t end = walk_.chunk_end(first, tokens);
      read_chunk(first, end);
      first = end;
    }
  }

  const policy::LayerRecords& records(int layer) const { return walk_.records(layer); }

 private:
  size_t size() const { return static_cast<size_t>(rows_.kv_heads * rows_.num_segments * rows_.stride); }

  void read_chunk(int64_t first, int64_t end) {
    walk_.begin_chunk(first, end - first);
    const int64_t tokens = walk_.prompt_end();
    const int64_t blocks = (tokens + options_.segment - 1) / options_.segment * options_.grid().blocks_per_segment();
    rows_ = {.grid = options_.grid(),
             .kv_heads = layers_.front()->shape().kv_heads,
             .first_segment = walk_.first_segment(),
             .num_segments = walk_.num_segments(),
             .stride = blocks};
    probabilities_.assign(size(), 0);
    bool follows = false;
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      if (policy::is_dense_layer(options_, static_cast<int32_t>(layer))) continue;
      read_layer(static_cast<int>(layer), follows);
      follows = true;
    }
    walk_.finish_chunk();
  }

  void read_layer(int layer, bool follows) {
    kernels::RandomAttention& made_up = *layers_[static_cast<size_t>(layer)];
    const kernels::AttentionParams all = made_up.params(walk_.first(), walk_.tokens(), nullptr);
    const std::span<const policy::SegmentPlace> places = walk_.begin_layer(layer, all.tokens);
    policy::LayerRecords& run = walk_.run(layer);
    std::vector<float> values(size());
    if (walk_.method().reads_midrange()) measure_midrange(all, layer, follows, run, values);
    for (size_t i = 0; i < run.size(); ++i)
      if (places[i].sampled) sample(all, i, run[i]);
    walk_.decide(layer);
    if (walk_.method().chooses()) return;  // held to what its words promise (plain_random_prefill.h)
    for (size_t i = 0; i < run.size(); ++i) {
      if (places[i].attends && options_.select != policy::BlockRank::kMidrange) rate(all, i, run[i], values);
      for (int32_t h = 0; h < rows_.kv_heads && !run[i].dense; ++h) choose(layer, h, static_cast<int32_t>(i), values);
    }
  }

  void measure_midrange(const kernels::AttentionParams& all, int layer, bool follows, policy::LayerRecords& run,
                        std::vector<float>& values) {
    const int32_t dim = all.kv.head_dim;
    const int64_t whole = (walk_.first() + all.tokens) / options_.block;
    std::vector<float> most(static_cast<size_t>(whole * rows_.kv_heads * dim));
    std::vector<float> least(most.size());
    const kernels::BlockExtremes keys{most.data(), least.data(), DType::kF32, dim, int64_t{rows_.kv_heads} * dim};
    kernels::reference_block_extremes({all.kv, options_.block, 0, whole, keys});
    std::vector<float> middle(static_cast<size_t>(rows_.num_segments * all.num_heads * dim));
    kernels::reference_query_midrange({.q = all.q,
                                       .q_stride = all.q_stride,
                                       .tokens = all.tokens,
                                       .segment = options_.segment,
                                       .num_heads = all.num_heads,
                                       .head_dim = dim,
                                       .out = middle.data()});
    const bool scaled = options_.logit_scale == policy::LogitScale::kInverseSqrtDim;
    kernels::reference_block_scores({.rows = rows_,
                                     .queries = middle.data(),
                                     .num_heads = all.num_heads,
                                     .head_dim = dim,
                                     .keys = keys,
                                     .scale = scaled ? 1 / std::sqrt(static_cast<float>(dim)) : 1.0f,
                                     .scores = values.data()});
    std::vector<float> entropy(static_cast<size_t>(rows_.kv_heads * rows_.num_segments));
    std::vector<float> covering(entropy.size());
    const auto cover = static_cast<float>(walk_.method().covers());
    kernels::reference_block_entropy(
        {.rows = rows_,
         .scores = values.data(),
         .previous = policy::fuses(options_, layer, follows) ? probabilities_.data() : nullptr,
         .probabilities = probabilities_.data(),
         .entropy = entropy.data(),
         .covering = cover > 0 ? covering.data() : nullptr,
         .cover = cover});
    for (size_t i = 0; i < run.size(); ++i) {
      for (size_t h = 0; h < run[i].heads.size(); ++h) {
        run[i].heads[h].midrange_entropy = entropy[h * run.size() + i];
        run[i].heads[h].covering = static_cast<int32_t>(covering[h * run.size() + i]);
      }
    }
    if (policy::ranks_on_probabilities(options_)) values = probabilities_;
  }

  kernels::PeakScoreParams peaks(const kernels::AttentionParams& all, size_t i, const std::vector<BlockRanking>& asked,
                                 std::vector<float>& scores, std::vector<AttentionSample>& samples) const {
    kernels::PeakScoreParams params{.rows = rows_,
                                    .segment = static_cast<int32_t>(i),
                                    .q = all.q,
                                    .q_stride = all.q_stride,
                                    .tokens = all.tokens,
                                    .first_position = static_cast<int32_t>(walk_.first()),
                                    .num_heads = all.num_heads,
                                    .scale = all.scale,
                                    .kv = all.kv,
                                    .keys = {},
                                    .ranking = asked.data(),
                                    .most_queries = all.num_heads / rows_.kv_heads,
                                    .scores = scores.data(),
                                    .samples = samples.data()};
    params.keys.super_blocks = kernels::blocks_per_super(options_.grid());
    return params;
  }

  void sample(const kernels::AttentionParams& all, size_t i, policy::SegmentRecord& record) const {
    const std::vector<BlockRanking> asked(record.heads.size(), {.latest = true, .sampling = walk_.method().sampling()});
    std::vector<float> scores(size());
    std::vector<AttentionSample> samples(record.heads.size());
    kernels::reference_peak_scores(peaks(all, i, asked, scores, samples));
    for (size_t h = 0; h < record.heads.size(); ++h) {
      record.heads[h].sampled = true;
      record.heads[h].sample = samples[h];
    }
  }

  void rate(const kernels::AttentionParams& all, size_t i, const policy::SegmentRecord& record,
            std::vector<float>& values) const {
    std::vector<BlockRanking> asked;
    for (const policy::HeadRecord& head : record.heads) {
      asked.push_back(head.ranking);
      asked.back().sampling = Sampling::kNone;
    }
    std::vector<AttentionSample> samples(record.heads.size());
    kernels::reference_peak_scores(peaks(all, i, asked, values, samples));
  }

  // The highest values of a row, the earlier block where they are the same.
  void choose(int layer, int32_t h, int32_t i, const std::vector<float>& values) {
    BlockPlan& plan = walk_.plan(layer);
    const float* row = values.data() + rows_.offset(h, i);
    std::vector<int32_t> order(static_cast<size_t>(rows_.visible(i)));
    for (size_t j = 0; j < order.size(); ++j) order[j] = static_cast<int32_t>(j);
    std::stable_sort(order.begin(), order.end(), [row](int32_t a, int32_t b) { return row[a] > row[b]; });
    const std::span<int32_t> chosen = plan.blocks_of(plan.list(h, i));
    std::copy_n(order.begin(), chosen.size(), chosen.begin());
    std::sort(chosen.begin(), chosen.end());
  }

  policy::PrefillOptions options_;
  std::vector<kernels::RandomAttention*> layers_;
  policy::PrefillWalk walk_;
  kernels::BlockRows rows_;
  std::vector<float> probabilities_;  // of the layer before
};

}  // namespace ei::testing
