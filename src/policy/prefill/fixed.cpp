// One budget for every kv_head and segment, as in CritiPrefill. A head that is known to be local reads its local budget
// at most, where types of heads are known.
#include <algorithm>

#include "policy/entries.h"
#include "policy/prefill/growth.h"
#include "policy/prefill/habit_shares.h"

namespace ei::policy {
namespace {

class FixedMethod : public PrefillMethod {
 public:
  using PrefillMethod::PrefillMethod;

  bool reads_midrange() const override { return options().select == BlockRank::kMidrange; }

  void decide(const SegmentPlace& place, const PrefillHistory&, std::span<SegmentRecord> run) const override {
    for (SegmentRecord& record : run) {
      const int64_t before = int64_t{record.segment} * options().segment;
      const int64_t early = early_tokens(options(), place.layer, before);
      const auto tokens = static_cast<float>(std::max<int64_t>(options().base_budget, early));
      for (HeadRecord& head : record.heads) {
        const bool local =
            head.type == HeadType::kLocal && options().local_budget > 0 && before > options().base_budget;
        head.budget = local ? static_cast<float>(std::min(options().local_budget, options().base_budget)) : tokens;
        head.blocks = affordable_blocks(head.budget, options().block, visible(record.segment));
      }
      if (options().mode != SparseMode::kRagged) collapse_counts(record);
    }
  }

 protected:
  int64_t rated_tokens(const SegmentPlace& place, const PrefillHistory&, const SegmentRecord&, size_t) const override {
    const int64_t before = int64_t{place.segment} * options().segment;
    return std::max<int64_t>(options().base_budget, 2 * early_tokens(options(), place.layer, before));
  }
};

std::unique_ptr<PrefillMethod> make_fixed_method(const PrefillOptions& options, const PrefillShape& shape) {
  return std::make_unique<FixedMethod>(options, shape);
}

}  // namespace

Entry fixed_entry() {
  return {.method = {.name = "critiprefill",
                     .summary = "CritiPrefill: every segment reads as many blocks",
                     .paper = "Lv et al., 2024, arXiv 2409.12490",
                     .prefill = {.rule = PrefillRule::kFixed, .block = 32, .layer_fusion = true}},
          .prefill = {.name = "fixed",
                      .make = make_fixed_method,
                      .reads = {"local-budget", "rank-queries", "logit-scale", "layer-skip", "early-share",
                                "sparse-mode", "layer-fusion", "candidate-share"}}};
}

}  // namespace ei::policy
