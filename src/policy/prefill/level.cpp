// The written description of the method taken at its word: more for a head of high entropy, less for one of low.
//
//   b_s = clamp(B0 * E_s / mean over the layer's kv_heads of E_s, min_budget, max_factor B0)
//
// with E the entropy of the block scores of mid-ranges. A layer whose heads all have E = 0 gives each B0.
#include <algorithm>

#include "policy/entries.h"
#include "policy/prefill/growth.h"
#include "policy/prefill/habit_shares.h"

namespace ei::policy {
namespace {

class LevelMethod : public PrefillMethod {
 public:
  using PrefillMethod::PrefillMethod;

  void decide(const SegmentPlace& place, const PrefillHistory& history, std::span<SegmentRecord> run) const override {
    const auto base = static_cast<float>(options().base_budget);
    const auto least = static_cast<float>(options().min_budget > 0 ? options().min_budget : options().block);
    const auto most = static_cast<float>(options().max_factor) * base;
    const SegmentRecord* before = history.previous;
    for (SegmentRecord& record : run) {
      float sum = 0;
      for (const HeadRecord& head : record.heads) sum += head.midrange_entropy;
      const float mean = sum / static_cast<float>(record.heads.size());
      const int64_t early = early_tokens(options(), place.layer, int64_t{record.segment} * options().segment);
      for (size_t h = 0; h < record.heads.size(); ++h) {
        HeadRecord& head = record.heads[h];
        const bool opens = record.segment > 0 && head.midrange_entropy >= static_cast<float>(options().e_t);
        head.rigid = (before == nullptr || before->heads[h].rigid) && !opens;
        head.budget = mean > 0 ? std::clamp(base * head.midrange_entropy / mean, least, most) : base;
        const float tokens = std::max(head.budget, static_cast<float>(early));
        head.blocks = affordable_blocks(tokens, options().block, visible(record.segment));
      }
      if (options().mode != SparseMode::kRagged) collapse_counts(record);
      before = &record;
    }
  }

 protected:
  int64_t rated_tokens(const SegmentPlace& place, const PrefillHistory&, const SegmentRecord&, size_t) const override {
    const int64_t before = int64_t{place.segment} * options().segment;
    const auto most = static_cast<int64_t>(options().max_factor * options().base_budget);
    return std::max(most, 2 * early_tokens(options(), place.layer, before));
  }
};

std::unique_ptr<PrefillMethod> make_level_method(const PrefillOptions& options, const PrefillShape& shape) {
  return std::make_unique<LevelMethod>(options, shape);
}

}  // namespace

Entry level_entry() {
  return {.prefill = {.name = "level",
                      .make = make_level_method,
                      .reads = {"min-budget", "max-factor", "e-t", "rank-queries", "logit-scale", "layer-skip",
                                "early-share", "sparse-mode", "layer-fusion", "candidate-share"}}};
}

}  // namespace ei::policy
