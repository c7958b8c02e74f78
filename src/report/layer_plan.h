// LayerPlan: what a sparse prefill decided in one layer, by segment and kv_head, as reports show it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/session.h"
#include "policy/head_habits.h"
#include "policy/prefill_options.h"
#include "sparse/planner.h"

namespace ei::report {

struct HeadPlan {
  double entropy = 0;
  double budget = 0;  // tokens
  bool rigid = false;
  policy::HeadKind kind{};
  int64_t read = 0;                 // tokens in front of the segment that it reads
  std::span<const int32_t> blocks;  // chosen; empty where the segment reads everything
};

class LayerPlan {
 public:
  // Both must outlive the plan; the trace has segments, and the planner has kept the blocks.
  LayerPlan(const policy::PrefillOptions& options, const sparse::LayerTrace& trace);

  size_t segments() const { return trace_.segments.size(); }
  size_t kv_heads() const { return heads_; }
  int64_t segment(size_t i) const { return trace_.segments[i]; }  // its number in the text
  bool dense(size_t i) const { return trace_.dense[i] != 0; }
  HeadPlan head(size_t i, size_t kv_head) const;
  const policy::HeadHabit& last_habit(size_t kv_head) const;

 private:
  const policy::PrefillOptions& options_;
  const sparse::LayerTrace& trace_;
  size_t heads_;
  std::vector<uint8_t> rigid_;  // [segments, kv_heads]
};

// Nothing where the layer read everything: in a dense method, under --layer-skip, behind a sliding window.
std::optional<LayerPlan> layer_plan(const Session& session, int layer);

// Was the kv_head still rigid in the segment? [segments, kv_heads]. The trace itself knows it for the ends of chunks.
std::vector<uint8_t> rigid_by_segment(const policy::PrefillOptions& options, const sparse::LayerTrace& trace);

}  // namespace ei::report
