#include "server/scheduler/head_trace.h"

#include <algorithm>
#include <limits>

#include "engine/engine.h"
#include "report/layer_plan.h"
#include "sparse/planner.h"

namespace ei::server {

namespace {
double share_of(const policy::SegmentRecord& record, size_t kv_head, const policy::PrefillOptions& options) {
  const double before = static_cast<double>(record.segment) * options.segment;
  if (record.dense || before <= 0) return 1;
  return std::min(1.0, static_cast<double>(record.heads[kv_head].blocks) * options.block / before);
}
}  // namespace

HeadTrace trace_heads(const Session& session, size_t seen) {
  HeadTrace trace;
  std::vector<report::LayerPlan> plans;
  size_t segments = std::numeric_limits<size_t>::max();
  for (int layer = 0; layer < session.engine().config().layers; ++layer) {
    const std::optional<report::LayerPlan> plan = report::layer_plan(session, layer);
    if (!plan) continue;
    trace.layers.push_back(layer);
    plans.push_back(*plan);
    segments = std::min(segments, plan->segments());
  }
  if (plans.empty()) return trace;
  const policy::PrefillOptions& options = session.planner()->options();
  trace.segment_tokens = options.segment;
  trace.kv_heads = plans.front().kv_heads();
  for (size_t i = seen; i < segments; ++i) {
    HeadColumn column{.segment = static_cast<int32_t>(plans.front().segment(i))};
    for (size_t p = 0; p < plans.size(); ++p) {
      const policy::SegmentRecord& record = session.planner()->records(trace.layers[p])[i];
      for (size_t head = 0; head < trace.kv_heads; ++head) {
        column.entropy.push_back(record.dense ? std::numeric_limits<double>::quiet_NaN()
                                              : plans[p].head(i, head).entropy);
        column.read.push_back(share_of(record, head, options));
      }
    }
    trace.columns.push_back(std::move(column));
  }
  return trace;
}

}  // namespace ei::server
