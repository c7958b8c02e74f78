#include "report/layer_plan.h"

namespace ei::report {

std::vector<uint8_t> rigid_by_segment(const policy::PrefillOptions& options, const sparse::LayerTrace& trace) {
  // The released rule classes a head once, and a fixed budget never does.
  if (trace.segments.empty() || options.rule != policy::PrefillRule::kEntropy ||
      options.rigid_test == policy::RigidTest::kWholeTrace)
    return trace.rigid;
  const size_t heads = trace.entropy.size() / trace.segments.size();
  const auto threshold = static_cast<float>(options.e_t);
  std::vector<uint8_t> rigid(trace.entropy.size());
  for (size_t list = 0; list < rigid.size(); ++list) {
    const bool before = list < heads || rigid[list - heads] != 0;
    const bool stays = trace.segments[list / heads] == 0 || !(trace.entropy[list] >= threshold);
    rigid[list] = before && stays ? 1 : 0;
  }
  return rigid;
}

LayerPlan::LayerPlan(const policy::PrefillOptions& options, const sparse::LayerTrace& trace)
    : options_(options),
      trace_(trace),
      heads_(trace.entropy.size() / trace.segments.size()),
      rigid_(rigid_by_segment(options, trace)) {}

HeadPlan LayerPlan::head(size_t i, size_t kv_head) const {
  const size_t list = i * heads_ + kv_head;
  HeadPlan plan;
  plan.entropy = trace_.entropy[list];
  plan.budget = trace_.tokens[list];
  plan.rigid = rigid_[list] != 0;
  plan.kind = trace_.kinds[list];
  plan.blocks = trace_.blocks[list];
  plan.read = dense(i) ? segment(i) * options_.segment : static_cast<int64_t>(plan.blocks.size()) * options_.block;
  return plan;
}

const policy::HeadHabit& LayerPlan::last_habit(size_t kv_head) const {
  return trace_.habits[trace_.habits.size() - heads_ + kv_head];
}

std::optional<LayerPlan> layer_plan(const Session& session, int layer) {
  const sparse::Planner* planner = session.planner();
  if (planner == nullptr || !planner->plans(layer) || planner->trace(layer).segments.empty()) return std::nullopt;
  return LayerPlan(planner->options(), planner->trace(layer));
}

}  // namespace ei::report
