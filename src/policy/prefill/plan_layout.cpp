#include "policy/prefill/plan_layout.h"

#include <algorithm>

#include "base/check.h"

namespace ei::policy {

void lay_out_plan(const SegmentGrid& grid, std::span<const SegmentRecord> run, BlockPlan& plan) {
  EI_CHECK(!run.empty());
  plan.grid = grid;
  plan.kv_heads = static_cast<int32_t>(run.front().heads.size());
  plan.first_segment = run.front().segment;
  plan.num_segments = static_cast<int32_t>(run.size());
  plan.dense.clear();
  for (const SegmentRecord& record : run) plan.dense.push_back(record.dense ? 1 : 0);
  plan.offsets.assign(1, 0);
  for (size_t h = 0; h < run.front().heads.size(); ++h) {
    for (const SegmentRecord& record : run) {
      const int64_t visible = int64_t{record.segment} * grid.blocks_per_segment();
      const int64_t count = record.dense ? 0 : std::clamp<int64_t>(record.heads[h].blocks, 0, visible);
      plan.offsets.push_back(plan.offsets.back() + count);
    }
  }
  plan.blocks.resize(static_cast<size_t>(plan.offsets.back()));
}

}  // namespace ei::policy
