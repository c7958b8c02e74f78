#include "policy/prefill_budget.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace ei::policy {

EntropyBudget::EntropyBudget(const PrefillOptions& options, int32_t kv_heads)
    : threshold_(options.rule == PrefillRule::kFixed ? std::numeric_limits<float>::infinity()
                                                     : static_cast<float>(options.e_t)),
      delta_(static_cast<float>(options.delta_t)),
      max_growth_(static_cast<float>(1.0 + options.delta_t)),
      step_tokens_(static_cast<float>(options.alpha * options.base_budget)),
      base_(static_cast<float>(options.base_budget)),
      min_(static_cast<float>(options.min_budget > 0 ? options.min_budget : options.base_budget)),
      max_(static_cast<float>(options.max_factor * options.base_budget)),
      grid_(options.grid()),
      rigid_test_(options.rigid_test),
      heads_(static_cast<size_t>(kv_heads), Head{.entropy = 0, .tokens = base_, .rigid = true}),
      before_latest_(heads_) {
  EI_CHECK_LT(0, options.base_budget);
}

void EntropyBudget::step(Head& head, int32_t segment, float entropy) const {
  if (segment > 0 && entropy >= threshold_) head.rigid = false;
  // The first two segments keep B0: segment 0 sees no block, and segment 1 has no entropy to be compared with.
  if (segment > 1 && !head.rigid) {
    const float growth = (entropy - head.entropy) / (head.entropy + 1e-9f);
    // Written so that a NaN counts as no growth.
    const float ratio = growth > 0 ? std::min(growth, max_growth_) : 0.0f;
    head.tokens = std::clamp(head.tokens + step_tokens_ * (ratio - delta_), min_, max_);
  }
  head.entropy = entropy;
}

void EntropyBudget::push(int32_t first_segment, int32_t num_segments, std::span<const float> entropy,
                         std::span<float> tokens, std::span<int32_t> counts) {
  const size_t segments = static_cast<size_t>(num_segments);
  EI_CHECK_EQ(entropy.size(), heads_.size() * segments);
  EI_CHECK_EQ(counts.size(), entropy.size());
  EI_CHECK(tokens.empty() || tokens.size() == entropy.size());
  if (num_segments == 0) return;
  if (first_segment == next_segment_ - 1) {
    heads_ = before_latest_;
  } else {
    EI_CHECK_EQ(first_segment, next_segment_);
  }

  for (size_t h = 0; h < heads_.size(); ++h) {
    Head& head = heads_[h];
    const auto trace = entropy.subspan(h * segments, segments);
    if (rigid_test_ == RigidTest::kWholeTrace) {
      const auto seen = trace.subspan(first_segment == 0 ? 1 : 0);
      if (std::any_of(seen.begin(), seen.end(), [&](float e) { return e >= threshold_; })) head.rigid = false;
    }
    for (size_t i = 0; i < segments; ++i) {
      const int32_t segment = first_segment + static_cast<int32_t>(i);
      before_latest_[h] = head;
      step(head, segment, trace[i]);
      const int64_t visible = int64_t{segment} * grid_.blocks_per_segment();
      const int64_t affordable = static_cast<int64_t>(std::floor(head.tokens / static_cast<float>(grid_.block)));
      counts[h * segments + i] = static_cast<int32_t>(std::min(affordable, visible));
      if (!tokens.empty()) tokens[h * segments + i] = head.tokens;
    }
  }
  next_segment_ = first_segment + num_segments;
}

void EntropyBudget::skip_to(int32_t segment) {
  EI_CHECK_GE(segment, next_segment_);
  next_segment_ = segment;
  before_latest_ = heads_;
}

void collapse_counts(std::span<int32_t> counts, int32_t kv_heads) {
  const size_t heads = static_cast<size_t>(kv_heads);
  const size_t segments = counts.size() / heads;
  for (size_t i = 0; i < segments; ++i) {
    int32_t largest = 0;
    for (size_t h = 0; h < heads; ++h) largest = std::max(largest, counts[h * segments + i]);
    for (size_t h = 0; h < heads; ++h) counts[h * segments + i] = largest;
  }
}

}  // namespace ei::policy
