// Blocks until a share of the estimated attention is covered, however many that takes: FlexPrefill (Lai et al., 2025)
// and XAttention (Xu et al., 2025). Their estimates are products of pooled queries and keys, or sums along
// antidiagonals of a block; ours are the mid-range scores of blocks, as probabilities. Never less than base_budget.
#include <algorithm>

#include "policy/entries.h"
#include "policy/prefill/growth.h"

namespace ei::policy {
namespace {

class CumulativeMethod : public PrefillMethod {
 public:
  using PrefillMethod::PrefillMethod;

  double covers() const override { return options().cover; }
  bool samples(int32_t) const override { return false; }

  void decide(const SegmentPlace&, const PrefillHistory&, std::span<SegmentRecord> run) const override {
    for (SegmentRecord& record : run) {
      for (HeadRecord& head : record.heads) {
        const int64_t covering = int64_t{head.covering} * options().block;
        head.budget = static_cast<float>(std::max<int64_t>(covering, options().base_budget));
        head.blocks = affordable_blocks(head.budget, options().block, visible(record.segment));
      }
    }
  }

 protected:
  int64_t rated_tokens(const SegmentPlace& place, const PrefillHistory&, const SegmentRecord&, size_t) const override {
    return int64_t{place.segment} * options().segment;
  }
};

std::unique_ptr<PrefillMethod> make_cumulative_method(const PrefillOptions& options, const PrefillShape& shape) {
  return std::make_unique<CumulativeMethod>(options, shape);
}

}  // namespace

Entry cumulative_entry() {
  return {.method = {.name = "cumulative",
                     .summary = "FlexPrefill, XAttention: up to a share",
                     .paper = "Lai et al., 2025, arXiv 2502.20766; Xu et al., 2025, arXiv 2503.16428",
                     .changes = "blocks are estimated by mid-ranges; the last segment reads everything",
                     .prefill = {.rule = {"cumulative"},
                                 .segment = 128,
                                 .block = 128,
                                 .threshold = 0,
                                 .base_budget = 1024,
                                 .logit_scale = LogitScale::kInverseSqrtDim,
                                 .layer_skip = 0}},
          .prefill = {.name = "cumulative",
                      .about = "until a share of the estimated attention is covered",
                      .make = make_cumulative_method,
                      .select = BlockRank::kMidrange,
                      .bounded = false,
                      .reads = {"cover", "logit-scale", "layer-skip"}}};
}

}  // namespace ei::policy
