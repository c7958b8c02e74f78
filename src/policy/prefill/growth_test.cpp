// The published budget rule, its level and fixed neighbours, on entropies made up for the purpose.
#include "policy/prefill/growth.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "support/prefill_run.h"

namespace ei::policy {
namespace {

PrefillOptions growth_options() {
  PrefillOptions options;
  options.rule = PrefillRule::kGrowth;
  options.segment = 64;
  options.block = 8;
  options.threshold = 256;
  options.base_budget = 256;
  options.last_dense = false;
  return options;
}

testing::PrefillTrace trace_of(const PrefillOptions& options, const std::vector<float>& entropy, int32_t kv_heads) {
  testing::PrefillTrace trace;
  trace.kv_heads = kv_heads;
  trace.tokens = static_cast<int64_t>(entropy.size()) / kv_heads * options.segment;
  for (const float value : entropy) trace.measures.push_back({.midrange_entropy = value, .sample = {}});
  return trace;
}

struct Decided {
  std::vector<float> budgets;
  std::vector<int32_t> blocks;
};

// Of one kv_head, one entropy a segment.
Decided decide(const PrefillOptions& options, const std::vector<float>& entropy) {
  const testing::PrefillTrace trace = trace_of(options, entropy, 1);
  testing::PrefillRun run(options, trace);
  run.read_whole();
  Decided decided;
  for (const SegmentRecord& record : run.records(0)) {
    decided.budgets.push_back(record.heads[0].budget);
    decided.blocks.push_back(record.heads[0].blocks);
  }
  return decided;
}

TEST(Growth, StaysAtItsBaseWhileAHeadIsRigid) {
  const Decided decided = decide(growth_options(), {9, 0, 1e-6f, 9e-6f, 0, 1e-7f, 9e-6f});
  EXPECT_EQ(decided.budgets, std::vector<float>(7, 256.0f));
  EXPECT_EQ(decided.blocks, (std::vector<int32_t>{0, 8, 16, 24, 32, 32, 32}));
}

TEST(Growth, GrowsByWholeBlocksInASaturatedStep) {
  // r = 1.4 - 0.4 = 1 exactly in float32: half a base budget more, not one token less.
  const Decided decided = decide(growth_options(), {9, 1, 8, 64, 512, 4096, 4096});
  EXPECT_EQ(decided.budgets, (std::vector<float>{256, 256, 384, 512, 640, 768, 768 - 128 * 0.4f}));
}

TEST(Growth, NeverLeavesItsClamps) {
  PrefillOptions options = growth_options();
  const std::vector<float> falling = {9, 8, 4, 2, 1, 0.5f, 0.25f, 0.1f};
  for (const float tokens : decide(options, falling).budgets) EXPECT_EQ(tokens, 256.0f);
  options.min_budget = 128;
  EXPECT_EQ(decide(options, falling).budgets.back(), 128.0f);
}

TEST(Growth, LearnsCausallyThatAHeadIsDynamic) {
  PrefillOptions options = growth_options();
  const std::vector<float> late = {9, 1e-8f, 9e-6f, 0, 1, 1};
  EXPECT_EQ(decide(options, late).budgets, (std::vector<float>{256, 256, 256, 256, 384, 384 - 128 * 0.4f}));
  // The released test looks into the future: the step of segment 2 counts already.
  options.rigid_test = RigidTest::kWholeTrace;
  EXPECT_GT(decide(options, late).budgets[2], 256.0f);
}

TEST(Growth, TreatsNotANumberAsNoGrowth) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float tokens : decide(growth_options(), {nan, 1, nan, 2, inf, inf, nan, 3}).budgets) {
    EXPECT_GE(tokens, 256.0f);
    EXPECT_LE(tokens, 768.0f);
  }
}

TEST(Growth, TakesTheLatestSegmentAgain) {
  const PrefillOptions options = growth_options();
  const std::vector<float> whole_entropy = {9, 1, 1.5f, 2};
  const testing::PrefillTrace trace = trace_of(options, whole_entropy, 1);
  testing::PrefillRun resumed(options, trace);
  resumed.read_chunk(0, 3);  // segment 2 was half full
  resumed.read_chunk(2, 4);
  const Decided whole = decide(options, whole_entropy);
  ASSERT_EQ(resumed.records(0).size(), 4u);
  EXPECT_EQ(resumed.records(0)[2].heads[0].budget, whole.budgets[2]);
  EXPECT_EQ(resumed.records(0)[3].heads[0].budget, whole.budgets[3]);
}

TEST(Growth, CollapsesToTheLargestCountOfASegment) {
  SegmentRecord record;
  record.heads.resize(3);
  record.heads[1].blocks = 5;
  record.heads[2].blocks = 2;
  collapse_counts(record);
  for (const HeadRecord& head : record.heads) EXPECT_EQ(head.blocks, 5);
}

TEST(Growth, GivesEarlyLayersTheirShareOfTheText) {
  PrefillOptions options = growth_options();
  EXPECT_TRUE(is_dense_layer(options, 0));
  options.early_share = 2;
  EXPECT_FALSE(is_dense_layer(options, 0));
  const Decided decided = decide(options, std::vector<float>(20, 0.0f));
  EXPECT_EQ(decided.blocks.back(), 19 * 8 / 2);
}

TEST(Fixed, StaysAtTheBaseBudget) {
  PrefillOptions options = growth_options();
  options.rule = PrefillRule::kFixed;
  EXPECT_EQ(decide(options, {9, 1, 8, 64, 512}).budgets, std::vector<float>(5, 256.0f));
}

TEST(Level, GivesMoreToHeadsOfHighEntropy) {
  PrefillOptions options = growth_options();
  options.rule = PrefillRule::kLevel;
  // Two kv_heads, three segments; then both at zero.
  const testing::PrefillTrace trace = trace_of(options, {1, 1, 1, 3, 0.001f, 9, 0, 0}, 2);
  testing::PrefillRun run(options, trace);
  run.read_whole();
  const LayerRecords& records = run.records(0);
  EXPECT_EQ(records[0].heads[0].budget, 256);
  EXPECT_EQ(records[1].heads[0].budget, 128);
  EXPECT_EQ(records[1].heads[1].budget, 384);
  EXPECT_EQ(records[2].heads[0].budget, 8) << "never less than a block";
  EXPECT_NEAR(records[2].heads[1].budget, 512, 0.2);
  EXPECT_EQ(records[3].heads[0].budget, 256);
}

TEST(Options, AreRefusedWithTheValueThatIsWrong) {
  PrefillOptions options = growth_options();
  EXPECT_TRUE(validate(options).ok());
  options.block = 24;
  EXPECT_NE(validate(options).error().message.find("24 does not divide 64"), std::string::npos);
  options.block = 0;
  EXPECT_FALSE(validate(options).ok());
  options = growth_options();
  options.max_factor = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(validate(options).ok());
  options = growth_options();
  options.min_budget = 257;
  EXPECT_FALSE(validate(options).ok());
  options = growth_options();
  options.density = 0;
  EXPECT_FALSE(validate(options).ok());
}

TEST(Options, MakeTheFirstAndTheLastSegmentsDense) {
  PrefillOptions options = growth_options();
  options.last_dense = true;
  EXPECT_TRUE(is_dense_segment(options, 3, 1000));   // begins before the threshold
  EXPECT_FALSE(is_dense_segment(options, 4, 1000));  // rows 256..319
  EXPECT_FALSE(is_dense_segment(options, 14, 1000));
  EXPECT_TRUE(is_dense_segment(options, 15, 1000));  // rows 960..999
  EXPECT_TRUE(is_dense_segment(options, 14, 960));   // the last one, although full
  options.last_dense = false;
  EXPECT_FALSE(is_dense_segment(options, 15, 1000));
  options.threshold = 0;
  EXPECT_TRUE(is_dense_segment(options, 0, 1000));  // nothing lies before it
}

}  // namespace
}  // namespace ei::policy
