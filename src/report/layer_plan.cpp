#include "report/layer_plan.h"

#include <cmath>

#include "policy/registry.h"
#include "sparse/planner.h"

namespace ei::report {

HeadPlan LayerPlan::head(size_t i, size_t kv_head) const {
  const policy::HeadRecord& record = records_[i].heads[kv_head];
  const bool sampled = policy::find_prefill_rule(options_.rule)->by_density;
  HeadPlan plan;
  plan.entropy = static_cast<double>(sampled ? record.means.segment_entropy : record.midrange_entropy);
  plan.row_entropy = static_cast<double>(record.means.row_entropy);
  plan.far = record.means.samples > 0 ? std::exp(static_cast<double>(record.means.log_far)) : 0;
  plan.sink = static_cast<double>(record.means.sink);
  plan.rigid = record.rigid;
  plan.type = record.type;
  plan.blocks = record.chosen;
  // Of the last layer only some rows attend: what was decided for the others was not read.
  const auto chosen = static_cast<int64_t>(record.chosen.size());
  plan.read = dense(i) ? segment(i) * options_.segment : chosen * options_.block;
  // What a rule would have given a segment that reads everything was not in force.
  plan.budget = dense(i) ? static_cast<double>(plan.read) : static_cast<double>(record.budget);
  return plan;
}

std::optional<LayerPlan> layer_plan(const Session& session, int layer) {
  const sparse::Planner* planner = session.planner();
  if (planner == nullptr || !planner->plans(layer) || planner->records(layer).empty()) return std::nullopt;
  return LayerPlan(planner->options(), planner->records(layer));
}

}  // namespace ei::report
