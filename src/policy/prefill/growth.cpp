#include "policy/prefill/growth.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "policy/entries.h"
#include "policy/prefill/habit_shares.h"

namespace ei::policy {

GrowthMethod::GrowthMethod(const PrefillOptions& options, const PrefillShape& shape)
    : PrefillMethod(options, shape),
      threshold_(static_cast<float>(options.e_t)),
      delta_(static_cast<float>(options.delta_t)),
      max_growth_(static_cast<float>(1.0 + options.delta_t)),
      step_tokens_(static_cast<float>(options.alpha * options.base_budget)),
      base_(static_cast<float>(options.base_budget)),
      min_(static_cast<float>(options.min_budget > 0 ? options.min_budget : options.base_budget)),
      max_(static_cast<float>(options.max_factor * options.base_budget)) {
  EI_CHECK_LT(0, options.base_budget);
}

void GrowthMethod::step(const HeadRecord& before, int32_t segment, HeadRecord& head) const {
  const float entropy = head.midrange_entropy;
  head.rigid = before.rigid;
  head.budget = before.budget;
  if (segment > 0 && entropy >= threshold_) head.rigid = false;
  // The first two segments keep B0: segment 0 sees no block, and segment 1 has no entropy to be compared with.
  if (segment <= 1 || head.rigid) return;
  const float growth = (entropy - before.midrange_entropy) / (before.midrange_entropy + 1e-9f);
  // Written so that a NaN counts as no growth.
  const float ratio = growth > 0 ? std::min(growth, max_growth_) : 0.0f;
  head.budget = std::clamp(head.budget + step_tokens_ * (ratio - delta_), min_, max_);
}

void GrowthMethod::decide(const SegmentPlace& place, const PrefillHistory& history,
                          std::span<SegmentRecord> run) const {
  const SegmentRecord* before = history.previous;
  const bool whole_trace = options().rigid_test == RigidTest::kWholeTrace;
  const auto opens = [&](const SegmentRecord& record, size_t h) {
    return record.segment > 0 && record.heads[h].midrange_entropy >= threshold_;
  };
  for (SegmentRecord& record : run) {
    for (size_t h = 0; h < record.heads.size(); ++h) {
      HeadRecord& head = record.heads[h];
      HeadRecord earlier;
      earlier.budget = base_;
      if (before != nullptr) earlier = before->heads[h];
      // At once when any segment decided together with this one is open, later ones included.
      if (whole_trace && std::any_of(run.begin(), run.end(), [&](const auto& one) { return opens(one, h); }))
        earlier.rigid = false;
      step(earlier, record.segment, head);
      const int32_t count = affordable_blocks(head.budget, options().block, visible(record.segment));
      SegmentPlace here = place;
      here.segment = record.segment;
      head.blocks = adjusted(here, head.type, count);
    }
    if (options().mode != SparseMode::kRagged) collapse_counts(record);
    before = &record;
  }
}

int64_t GrowthMethod::rated_tokens(const SegmentPlace& place, const PrefillHistory&, const SegmentRecord&,
                                   size_t) const {
  const int64_t before = int64_t{place.segment} * options().segment;
  return std::max(static_cast<int64_t>(max_), 2 * early_tokens(options(), place.layer, before));
}

int32_t GrowthMethod::adjusted(const SegmentPlace& place, HeadType, int32_t count) const {
  const int64_t before = int64_t{place.segment} * options().segment;
  return std::max(count, static_cast<int32_t>(early_tokens(options(), place.layer, before) / options().block));
}

int32_t affordable_blocks(float tokens, int32_t block, int32_t visible) {
  const auto affordable = static_cast<int64_t>(std::floor(tokens / static_cast<float>(block)));
  return static_cast<int32_t>(std::min<int64_t>(affordable, visible));
}

void collapse_counts(SegmentRecord& record) {
  int32_t largest = 0;
  for (const HeadRecord& head : record.heads) largest = std::max(largest, head.blocks);
  for (HeadRecord& head : record.heads) head.blocks = largest;
}

std::vector<std::string_view> growth_options() {
  return {"min-budget",  "max-factor", "e-t",         "delta-t",     "alpha",        "rigid-test",     "rank-queries",
          "logit-scale", "layer-skip", "early-share", "sparse-mode", "layer-fusion", "candidate-share"};
}

namespace {

std::unique_ptr<PrefillMethod> make_growth_method(const PrefillOptions& options, const PrefillShape& shape) {
  return std::make_unique<GrowthMethod>(options, shape);
}

}  // namespace

Entry growth_entry() {
  return {.method = {.name = "entropyinfer-released",
                     .summary = "EntropyInfer as its authors released it",
                     .paper = "Xu et al., 2026, arXiv 2606.09508",
                     .changes = "keys are masked by true positions; groups share a cache",
                     .prefill = {.rule = PrefillRule::kGrowth,
                                 .rigid_test = RigidTest::kWholeTrace,
                                 .mode = SparseMode::kReleased},
                     .kv = {.rule = KvRule::kLatent, .repeat = 0}},
          .prefill = {.name = "growth", .about = "published", .make = make_growth_method, .reads = growth_options()}};
}

}  // namespace ei::policy
