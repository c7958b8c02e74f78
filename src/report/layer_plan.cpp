#include "report/layer_plan.h"

#include <cmath>

#include "policy/registry.h"
#include "sparse/planner.h"

namespace ei::report {

LayerPlan::LayerPlan(const policy::PrefillOptions& options, const policy::LayerRecords& records)
    : options_(options),
      records_(records),
      by_samples_(policy::find_prefill_rule(options.rule)->by_density),
      reads_midrange_(policy::make_prefill_method(options, {})->reads_midrange()) {}

HeadPlan LayerPlan::head(size_t i, size_t kv_head) const {
  const policy::HeadRecord& record = records_[i].heads[kv_head];
  HeadPlan plan;
  if (record.means.samples > 0) {
    plan.row_entropy = static_cast<double>(record.means.row_entropy);
    plan.far = std::exp(static_cast<double>(record.means.log_far));
    plan.sink = static_cast<double>(record.means.sink);
    if (by_samples_) plan.entropy = static_cast<double>(record.means.segment_entropy);
  }
  if (!by_samples_ && reads_midrange_ && segment(i) > 0) plan.entropy = static_cast<double>(record.midrange_entropy);
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
