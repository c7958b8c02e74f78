#include "report/head_summary.h"

#include "engine/engine.h"
#include "report/layer_plan.h"
#include "sparse/planner.h"

namespace ei::report {

namespace {
double share_read(const policy::PrefillOptions& options, const policy::LayerRecords& records, size_t kv_head) {
  double read = 0;
  double before = 0;
  for (const policy::SegmentRecord& record : records) {
    if (record.dense) continue;
    read += static_cast<double>(record.heads[kv_head].blocks) * options.block;
    before += static_cast<double>(record.segment) * options.segment;
  }
  return before > 0 ? read / before : 0;
}
}  // namespace

std::vector<HeadSummary> head_summaries(const Session& session) {
  std::vector<HeadSummary> heads;
  for (int layer = 0; layer < session.engine().config().layers; ++layer) {
    const std::optional<LayerPlan> plan = layer_plan(session, layer);
    if (!plan) continue;
    const policy::LayerRecords& records = session.planner()->records(layer);
    for (size_t h = 0; h < plan->kv_heads(); ++h) {
      const double share = share_read(session.planner()->options(), records, h);
      if (share == 0) continue;
      const HeadPlan head = plan->head(records.size() - 1, h);
      heads.push_back({.layer = layer,
                       .kv_head = h,
                       .rigid = head.rigid,
                       .type = head.type,
                       .entropy = head.entropy,
                       .row_entropy = head.row_entropy,
                       .far = head.far,
                       .share_read = share});
    }
  }
  return heads;
}

}  // namespace ei::report
