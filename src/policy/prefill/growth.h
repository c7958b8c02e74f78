// The published budget rule, shared by the methods that build on it: budgets follow the growth of E, the entropy of the
// block scores of mid-ranges.
//
//   rigid:    b_s = B0
//   dynamic:  r_s = clamp((E_s - E_{s-1}) / (E_{s-1} + 1e-9), 0, 1 + delta_t),   r_1 = delta_t
//             b_s = clamp(b_{s-1} + alpha B0 (r_s - delta_t), min_budget, max_factor B0)
//   count:    c_s = min(floor(b_s / B), blocks before segment s)
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "policy/prefill/method.h"

namespace ei::policy {

class GrowthMethod : public PrefillMethod {
 public:
  GrowthMethod(const PrefillOptions& options, const PrefillShape& shape);

  void decide(const SegmentPlace& place, const PrefillHistory& history, std::span<SegmentRecord> run) const override;

 protected:
  int64_t rated_tokens(const SegmentPlace& place, const PrefillHistory& history, const SegmentRecord& record,
                       size_t kv_head) const override;
  // Blocks that a kv_head reads for which the rule allows `count`; here, no fewer than an early layer's share.
  virtual int32_t adjusted(const SegmentPlace& place, HeadType type, int32_t count) const;

 private:
  void step(const HeadRecord& before, int32_t segment, HeadRecord& head) const;

  // Each constant is made in double and rounded once. The recurrence itself is float32 throughout: mixed with double,
  // a saturated step (r = 1 + delta_t) falls short of a whole block.
  float threshold_;
  float delta_;
  float max_growth_;
  float step_tokens_;
  float base_;
  float min_;
  float max_;
};

// What it and the methods that are made of it read (PrefillEntry::reads).
std::vector<std::string_view> growth_options();

// Blocks that `tokens` tokens pay for, no more than there are.
int32_t affordable_blocks(float tokens, int32_t block, int32_t visible);

// Every kv_head gets the largest count of its segment.
void collapse_counts(SegmentRecord& record);

}  // namespace ei::policy
