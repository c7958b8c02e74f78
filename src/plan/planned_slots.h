// The slots that a BlockPlan gives to one row, one by one: for the slow readers of a plan.
#pragma once

#include "base/check.h"
#include "plan/block_plan.h"

namespace ei {

// Calls use(slot) for every slot the plan gives to the row at `position`, in ascending order, without looking at
// causality or window.
template <typename Use>
void for_each_planned_slot(const BlockPlan& plan, int64_t kv_head, int64_t length, int64_t position, Use use) {
  const int64_t segment = position / plan.grid.segment;
  const int64_t i = segment - plan.first_segment;
  EI_CHECK_GE(i, 0);
  EI_CHECK_LT(i, plan.num_segments);
  const int64_t own_begin = plan.dense[static_cast<size_t>(i)] != 0 ? 0 : segment * plan.grid.segment;
  if (own_begin > 0) {
    const size_t list = static_cast<size_t>(kv_head * plan.num_segments + i);
    for (int64_t entry = plan.offsets[list]; entry < plan.offsets[list + 1]; ++entry) {
      const int64_t first = int64_t{plan.blocks[static_cast<size_t>(entry)]} * plan.grid.block;
      for (int64_t slot = first; slot < first + plan.grid.block; ++slot) use(slot);
    }
  }
  for (int64_t slot = own_begin; slot < length; ++slot) use(slot);
}

}  // namespace ei
