#include "report/layer_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "policy/registry.h"

namespace ei::report {
namespace {

policy::LayerRecords two_segments() {
  policy::LayerRecords records(2);
  for (policy::SegmentRecord& record : records) record.heads.resize(2);
  records[0].dense = true;
  records[1].segment = 1;
  policy::HeadRecord& head = records[1].heads[1];
  head.midrange_entropy = 0.5f;
  head.means = {.sink = 0.25f, .log_far = std::log(0.5f), .segment_entropy = 3, .row_entropy = 2, .samples = 4};
  head.rigid = false;
  head.budget = 20;
  head.type = policy::HeadType::kSink;
  head.blocks = 2;
  head.chosen = {0, 5};
  return records;
}

TEST(LayerPlan, ShowsWhatWasInForce) {
  const policy::LayerRecords records = two_segments();
  const policy::PrefillOptions options{.rule = policy::PrefillRule::kEntropy, .block = 8};
  const LayerPlan plan(options, records);
  EXPECT_EQ(plan.segments(), 2u);
  EXPECT_EQ(plan.kv_heads(), 2u);
  EXPECT_TRUE(plan.dense(0));
  EXPECT_FALSE(plan.dense(1));
  EXPECT_EQ(plan.segment(1), 1);
  const HeadPlan head = plan.head(1, 1);
  EXPECT_EQ(head.entropy, 3);
  EXPECT_EQ(head.row_entropy, 2);
  EXPECT_NEAR(head.far, 0.5, 1e-6);
  EXPECT_EQ(head.sink, 0.25);
  EXPECT_EQ(head.budget, 20);
  EXPECT_EQ(head.read, 16) << "what is read, not what was allowed";
  EXPECT_FALSE(head.rigid);
  EXPECT_EQ(head.type, policy::HeadType::kSink);
  EXPECT_EQ(head.blocks.size(), 2u);
  EXPECT_EQ(plan.samples(1), 4);
}

TEST(LayerPlan, ShowsTheEntropyThatDecides) {
  const policy::LayerRecords records = two_segments();
  const policy::PrefillOptions options{.rule = policy::PrefillRule::kGrowth};
  EXPECT_EQ(LayerPlan(options, records).head(1, 1).entropy, 0.5);
}

TEST(LayerPlan, ShowsNoFigureWhereNothingWasMeasured) {
  const policy::LayerRecords records = two_segments();
  for (const policy::PrefillRule rule : {policy::PrefillRule::kEntropy, policy::PrefillRule::kGrowth}) {
    const policy::PrefillOptions options{.rule = rule};
    const HeadPlan head = LayerPlan(options, records).head(0, 0);
    EXPECT_TRUE(std::isnan(head.entropy)) << "nothing lies before the first segment";
    for (const double value : {head.row_entropy, head.far, head.sink}) EXPECT_TRUE(std::isnan(value));
  }
  const policy::PrefillOptions measures_nothing = policy::find_method("streaming")->prefill;
  EXPECT_TRUE(std::isnan(LayerPlan(measures_nothing, records).head(1, 1).entropy));
  const policy::PrefillOptions by_samples{.rule = policy::PrefillRule::kEntropy};
  EXPECT_TRUE(std::isnan(LayerPlan(by_samples, records).head(1, 0).entropy)) << "no sample of this kv_head yet";
}

}  // namespace
}  // namespace ei::report
