#include "policy/prefill/plan_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace ei::policy {
namespace {

TEST(PlanLayout, GivesEveryListItsRoomAndDenseSegmentsNone) {
  LayerRecords run(3);
  for (size_t i = 0; i < run.size(); ++i) {
    run[i].segment = static_cast<int32_t>(i) + 1;
    run[i].heads.resize(2);
    run[i].heads[0].blocks = 2;
    run[i].heads[1].blocks = 99;  // more than there are
  }
  run[0].dense = true;
  BlockPlan plan;
  lay_out_plan({.segment = 16, .block = 8}, run, plan);
  EXPECT_EQ(plan.kv_heads, 2);
  EXPECT_EQ(plan.first_segment, 1);
  EXPECT_EQ(plan.num_segments, 3);
  EXPECT_EQ(plan.dense, (std::vector<uint8_t>{1, 0, 0}));
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 0, 2, 4, 4, 8, 14}));
  EXPECT_EQ(plan.blocks.size(), 14u);
}

}  // namespace
}  // namespace ei::policy
