// StreamingLLM (Xiao et al., 2023): the first tokens, on which attention rests, and the latest ones; nothing is
// measured. In a prompt every kv_head reads the first block and the latest blocks before its segment, base_budget
// tokens together; of the cache the first slots and the latest ones stay.
#include <numeric>

#include "policy/entries.h"
#include "policy/prefill/growth.h"

namespace ei::policy {
namespace {

class StreamingPrefill : public PrefillMethod {
 public:
  using PrefillMethod::PrefillMethod;

  bool reads_midrange() const override { return false; }
  bool samples(int32_t) const override { return false; }

  void decide(const SegmentPlace&, const PrefillHistory&, std::span<SegmentRecord> run) const override {
    for (SegmentRecord& record : run) {
      for (HeadRecord& head : record.heads) {
        head.budget = static_cast<float>(options().base_budget);
        head.blocks = affordable_blocks(head.budget, options().block, visible(record.segment));
      }
    }
  }

 protected:
  BlockRanking ranking(const SegmentPlace&, const SampleMeans&, int64_t) const override { return {.latest = true}; }
  int64_t rated_tokens(const SegmentPlace&, const PrefillHistory&, const SegmentRecord&, size_t) const override {
    return options().base_budget;
  }
};

class StreamingKv : public KvMethod {
 public:
  using KvMethod::KvMethod;

 protected:
  QuerySource scored_queries() const override { return QuerySource::kNone; }
  // The later the better; the sinks are protected anyway.
  LayerScores score(const LayerMeasures& measured) const override {
    LayerScores scores{.stride = measured.stride};
    for (size_t kv_head = 0; kv_head < measured.lengths.size(); ++kv_head) {
      scores.made.resize(scores.made.size() + static_cast<size_t>(scores.stride));
      std::iota(scores.made.end() - scores.stride, scores.made.end(), 0.0f);
    }
    return scores;
  }
};

template <typename Method, typename Made, typename Options, typename Shape>
std::unique_ptr<Made> make(const Options& options, const Shape& shape) {
  return std::make_unique<Method>(options, shape);
}

}  // namespace

Entry streaming_entry() {
  const KvOptions kv{.rule = {"streaming"}, .gap = -1, .kernel = 1, .sinks = 4};
  return {.method = {.name = "streaming",
                     .summary = "StreamingLLM: the first and the latest",
                     .paper = "Xiao et al., 2023, arXiv 2309.17453",
                     .changes = "keys keep their positions; the sinks of a prompt are its first block",
                     .prefill = {.rule = {"streaming"}, .layer_skip = 0, .select = BlockRank::kAdaptive},
                     .kv = kv},
          .prefill = {.name = "streaming",
                      .about = "the first and the latest",
                      .make = make<StreamingPrefill, PrefillMethod, PrefillOptions, PrefillShape>,
                      .select = BlockRank::kAdaptive},
          .kv = {.name = "streaming",
                 .about = "the first and the latest",
                 .preset = kv,
                 .make = make<StreamingKv, KvMethod, KvOptions, KvShape>,
                 .scores_attention = false}};
}

}  // namespace ei::policy
