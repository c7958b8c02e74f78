// TriangleMix (He et al., 2025): the first half of the layers reads everything, the others the sink and the latest
// tokens, base_budget of them; the end of a prompt, its last segment, reads everything in all layers.
#include "policy/entries.h"
#include "policy/prefill/growth.h"

namespace ei::policy {
namespace {

class TriangleMethod : public PrefillMethod {
 public:
  using PrefillMethod::PrefillMethod;

  bool reads_midrange() const override { return false; }
  bool samples(int32_t) const override { return false; }

  void decide(const SegmentPlace& place, const PrefillHistory&, std::span<SegmentRecord> run) const override {
    for (SegmentRecord& record : run) {
      const int32_t all = visible(record.segment);
      for (HeadRecord& head : record.heads) {
        head.budget =
            static_cast<float>(deep(place) ? options().base_budget : int64_t{record.segment} * options().segment);
        head.blocks = deep(place) ? affordable_blocks(head.budget, options().block, all) : all;
      }
    }
  }

 protected:
  BlockRanking ranking(const SegmentPlace&, const SampleMeans&, int64_t) const override { return {.latest = true}; }
  int64_t rated_tokens(const SegmentPlace& place, const PrefillHistory&, const SegmentRecord&, size_t) const override {
    return deep(place) ? options().base_budget : int64_t{place.segment} * options().segment;
  }

 private:
  bool deep(const SegmentPlace& place) const { return 2 * place.layer >= shape().layers; }
};

std::unique_ptr<PrefillMethod> make_triangle_method(const PrefillOptions& options, const PrefillShape& shape) {
  return std::make_unique<TriangleMethod>(options, shape);
}

}  // namespace

Entry triangle_entry() {
  return {.method =
              {.name = "triangle",
               .summary = "TriangleMix: deep layers read the first and the latest",
               .paper = "He et al., 2025, arXiv 2507.21526",
               .changes = "the end that reads everything is a whole segment",
               .prefill = {.rule = {"triangle"}, .base_budget = 520, .layer_skip = 0, .select = BlockRank::kAdaptive}},
          .prefill = {.name = "triangle",
                      .about = "everything, in deep layers the first and the latest",
                      .make = make_triangle_method,
                      .select = BlockRank::kAdaptive,
                      .bounded = false}};
}

}  // namespace ei::policy
