// LayerPlan: what a sparse prefill measured and decided in one layer, by segment and kv_head, as reports show it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "engine/session.h"
#include "policy/prefill/method.h"

namespace ei::report {

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

struct HeadPlan {
  // NaN: not measured.
  double entropy = kNotMeasured;      // the one that decides: of the segment's far attention, or of mid-ranges
  double row_entropy = kNotMeasured;  // of single rows' far attention, like the next two where attention is sampled
  double far = kNotMeasured;
  double sink = kNotMeasured;
  double budget = 0;  // tokens
  bool rigid = false;
  policy::HeadType type{};
  int64_t read = 0;                 // tokens in front of the segment that it reads
  std::span<const int32_t> blocks;  // chosen; empty where the segment reads everything
};

class LayerPlan {
 public:
  // Both must outlive the plan; there are records, and the planner has kept the blocks.
  LayerPlan(const policy::PrefillOptions& options, const policy::LayerRecords& records);

  size_t segments() const { return records_.size(); }
  size_t kv_heads() const { return records_.front().heads.size(); }
  int64_t segment(size_t i) const { return records_[i].segment; }  // its number in the text
  bool dense(size_t i) const { return records_[i].dense; }
  HeadPlan head(size_t i, size_t kv_head) const;
  int32_t samples(size_t kv_head) const { return records_.back().heads[kv_head].means.samples; }

 private:
  const policy::PrefillOptions& options_;
  const policy::LayerRecords& records_;
  bool by_samples_;
  bool reads_midrange_;
};

// Nothing where the layer read everything: in a dense method, under --layer-skip, behind a sliding window.
std::optional<LayerPlan> layer_plan(const Session& session, int layer);

}  // namespace ei::report
