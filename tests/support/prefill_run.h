// Drives a prefill method by the code that the planner runs, over measurements made up for the purpose: for tests
// without a model.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "policy/prefill/plan_layout.h"
#include "policy/prefill/walk.h"

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
  // What ranking costs next to the model's products: by default nothing does, so that every row ranks.
  double products = 0;
  double per_key = 0;
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
  // Segments in which every row ranks, some rows do, and one query for a kv_head, in one trace.
  trace.products = 1e6;
  trace.per_key = 0.3 * trace.products / static_cast<double>(4 * options.segment);
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

// Reads a trace in chunks, through the walk that the planner takes, with the trace's measurements in place of kernels'.
class PrefillRun {
 public:
  PrefillRun(const policy::PrefillOptions& options, const PrefillTrace& trace)
      : trace_(trace), walk_(policy::make_prefill_method(options, shape_of(trace)), shape_of(trace)) {
    walk_.begin_prompt(trace.tokens);
  }

  // cut(first segment) proposes the end of a chunk.
  template <typename Cut>
  void read(Cut cut) {
    const policy::PrefillOptions& options = walk_.options();
    for (int64_t first = 0; first < trace_.tokens;) {
      const auto segment = static_cast<int32_t>(first / options.segment);
      const int64_t batch = int64_t{cut(segment) - segment} * options.segment;
      const int64_t end = walk_.chunk_end(first, batch);
      read_tokens(first, end);
      first = end;
    }
  }
  void read_whole() {
    read([](int32_t) { return 1 << 20; });
  }
  // Segments [begin, end) of all layers; the first may be one that is there already, and is replaced.
  void read_chunk(int32_t begin, int32_t end) {
    const int64_t segment = walk_.options().segment;
    read_tokens(begin * segment, std::min(end * segment, trace_.tokens));
  }

  const policy::PrefillMethod& method() const { return walk_.method(); }
  const policy::LayerRecords& records(int32_t layer) const { return walk_.records(layer); }
  // The layout of all segments of a layer.
  BlockPlan plan(int32_t layer) const {
    BlockPlan plan;
    policy::lay_out_plan(walk_.options().grid(), records(layer), plan);
    return plan;
  }
  void forget_from(int32_t segment) { walk_.truncate(int64_t{segment} * walk_.options().segment); }
  std::string saved() const {
    ByteWriter to;
    walk_.save(to);
    return to.take();
  }
  Status restore(std::string_view bytes) {
    ByteReader from(bytes);
    return walk_.restore(from);
  }

 private:
  static policy::PrefillShape shape_of(const PrefillTrace& trace) {
    return {.layers = trace.layers,
            .kv_heads = trace.kv_heads,
            .products = trace.products,
            .per_key = trace.per_key,
            .choosing_heads = (trace.layers - 1) * trace.kv_heads};
  }

  void read_tokens(int64_t first, int64_t end) {
    walk_.begin_chunk(first, end - first);
    for (int32_t layer = 0; layer < trace_.layers; ++layer) {
      const std::span<const policy::SegmentPlace> places = walk_.begin_layer(layer, end - first);
      for (size_t i = 0; i < places.size(); ++i) measure(places[i], walk_.run(layer)[i]);
      walk_.decide(layer);
    }
    walk_.finish_chunk();
  }

  void measure(const policy::SegmentPlace& place, policy::SegmentRecord& record) const {
    for (size_t h = 0; h < record.heads.size(); ++h) {
      const HeadMeasure& made_up = trace_.at(walk_.options(), place.layer, place.segment, h);
      policy::HeadRecord& head = record.heads[h];
      head.midrange_entropy = made_up.midrange_entropy;
      head.covering = made_up.covering;
      head.sampled = place.sampled;
      if (place.sampled) head.sample = made_up.sample;
    }
  }

  const PrefillTrace& trace_;
  policy::PrefillWalk walk_;
};

}  // namespace ei::testing
