// From records to a BlockPlan: dense segments, and lists with room for the blocks that were decided on.
#pragma once

#include <span>

#include "plan/block_plan.h"
#include "policy/prefill/method.h"

namespace ei::policy {

// Everything of a plan but the blocks themselves. `run`: consecutive segments of one layer.
void lay_out_plan(const SegmentGrid& grid, std::span<const SegmentRecord> run, BlockPlan& plan);

}  // namespace ei::policy
