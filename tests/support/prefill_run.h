// Drives a prefill method as the planner does, over measurements made up for the purpose: for tests without a model.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "policy/prefill/method.h"
#include "policy/prefill/plan_layout.h"

namespace ei::testing {

// What one kv_head would be measured to do in one segment of one layer.
struct HeadMeasure {
  float midrange_entropy = 0;
  int32_t covering = 0;
  AttentionSample sample;
};

struct PrefillTrace {
  int32_t layers = 1;
  int32_t kv_heads = 1;
  int64_t tokens = 0;
  std::vector<HeadMeasure> measures;  // [layers, segments, kv_heads]

  int32_t segments(const policy::PrefillOptions& options) const {
    return static_cast<int32_t>((tokens + options.segment - 1) / options.segment);
  }
  const HeadMeasure& at(const policy::PrefillOptions& options, int32_t layer, int32_t segment, size_t h) const {
    const auto row = static_cast<size_t>(layer * segments(options) + segment);
    return measures[row * static_cast<size_t>(kv_heads) + h];
  }
};

inline PrefillTrace random_trace(const policy::PrefillOptions& options, uint64_t seed) {
  Random random(seed);
  PrefillTrace trace;
  trace.layers = static_cast<int32_t>(random.between(1, 4));
  trace.kv_heads = static_cast<int32_t>(random.between(1, 3));
  trace.tokens = random.between(1, 40 * options.segment);
  const int64_t count = int64_t{trace.layers} * trace.segments(options) * trace.kv_heads;
  for (int64_t i = 0; i < count; ++i) {
    HeadMeasure one;
    one.midrange_entropy = random.below(3) == 0 ? 0.0f : std::exp(3.0f * random.normal());
    one.covering = static_cast<int32_t>(i * 7919 % 300);
    const auto part = [&] { return static_cast<float>(random.below(1000)) / 1000; };
    one.sample.sink = part();
    one.sample.far = (1 - one.sample.sink) * part();
    one.sample.distant = one.sample.far * part();
    one.sample.segment_entropy = 6 * part();
    one.sample.row_entropy = one.sample.segment_entropy * part();
    trace.measures.push_back(one);
  }
  return trace;
}

// Reads a trace in chunks whose ends `cut` proposes: cut(first segment) gives the end of the chunk.
class PrefillRun {
 public:
  PrefillRun(const policy::PrefillOptions& options, const PrefillTrace& trace)
      : trace_(trace),
        method_(policy::make_prefill_method(options, {.layers = trace.layers,
                                                      .kv_heads = trace.kv_heads,
                                                      .choosing_heads = (trace.layers - 1) * trace.kv_heads})),
        records_(static_cast<size_t>(trace.layers)) {}

  template <typename Cut>
  void read(Cut cut) {
    const policy::PrefillOptions& options = method_->options();
    for (int32_t begin = 0; begin < trace_.segments(options);) {
      int32_t end = std::min(trace_.segments(options), std::max(begin + 1, cut(begin)));
      if (const int32_t pool = method_->pool_segments(); pool > 0) end = std::min(end, (begin / pool + 1) * pool);
      read_chunk(begin, end);
      begin = end;
    }
  }
  void read_whole() {
    read([](int32_t) { return 1 << 30; });
  }

  const policy::PrefillMethod& method() const { return *method_; }
  const policy::LayerRecords& records(int32_t layer) const { return records_[static_cast<size_t>(layer)]; }
  // The layout of all segments of a layer.
  BlockPlan plan(int32_t layer) const {
    BlockPlan plan;
    policy::lay_out_plan(method_->options().grid(), records(layer), plan);
    return plan;
  }
  void forget_from(int32_t segment) {
    for (policy::LayerRecords& records : records_)
      while (!records.empty() && records.back().segment >= segment) records.pop_back();
  }
  // Segments [begin, end) of all layers; the first may be one that is there already, and is replaced.
  void read_chunk(int32_t begin, int32_t end) {
    std::vector<policy::LayerRecords> runs;
    for (int32_t layer = 0; layer < trace_.layers; ++layer) runs.push_back(read_layer(layer, begin, end));
    for (size_t layer = 0; layer < runs.size(); ++layer) {
      policy::LayerRecords& past = records_[layer];
      if (!past.empty() && past.back().segment == begin) past.pop_back();
      past.insert(past.end(), runs[layer].begin(), runs[layer].end());
    }
  }

 private:
  policy::LayerRecords read_layer(int32_t layer, int32_t begin, int32_t end) const {
    const policy::PrefillOptions& options = method_->options();
    const policy::LayerRecords& past = records(layer);
    auto behind = past.end();
    while (behind != past.begin() && std::prev(behind)->segment >= begin) --behind;
    const policy::SegmentRecord* previous = behind == past.begin() ? nullptr : &*std::prev(behind);
    const policy::PrefillHistory history{.previous = previous, .layers = records_};
    policy::LayerRecords run;
    run.reserve(static_cast<size_t>(end - begin));
    for (int32_t segment = begin; segment < end; ++segment) {
      policy::SegmentRecord& record = run.emplace_back();
      record.segment = segment;
      record.dense = policy::is_dense_segment(options, segment, trace_.tokens);
      record.heads.resize(static_cast<size_t>(trace_.kv_heads));
      const policy::SegmentRecord* before = segment == begin ? previous : &run[run.size() - 2];
      const bool sampled = method_->samples(segment) && layer + 1 < trace_.layers;
      const policy::SegmentPlace place{
          .layer = layer, .segment = segment, .rows = options.segment, .attends = !record.dense, .sampled = sampled};
      method_->rank(place, {.previous = before, .layers = records_}, record);
      for (size_t h = 0; h < record.heads.size(); ++h) {
        record.heads[h].midrange_entropy = trace_.at(options, layer, segment, h).midrange_entropy;
        record.heads[h].covering = trace_.at(options, layer, segment, h).covering;
        record.heads[h].sampled = sampled;
        if (sampled) record.heads[h].sample = trace_.at(options, layer, segment, h).sample;
      }
      method_->observe(before, record);
    }
    method_->decide({.layer = layer, .segment = begin}, history, run);
    return run;
  }

  const PrefillTrace& trace_;
  std::unique_ptr<policy::PrefillMethod> method_;
  std::vector<policy::LayerRecords> records_;  // [layers]
};

}  // namespace ei::testing
