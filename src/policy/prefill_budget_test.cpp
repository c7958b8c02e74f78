#include "policy/prefill_budget.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace ei::policy {
namespace {

PrefillOptions small_options() {
  PrefillOptions options;
  options.rule = PrefillRule::kEntropy;
  options.segment = 64;
  options.block = 8;
  options.threshold = 256;
  options.base_budget = 256;
  return options;
}

struct Trace {
  std::vector<float> tokens;
  std::vector<int32_t> counts;
};

Trace trace_of(const PrefillOptions& options, const std::vector<float>& entropy) {
  EntropyBudget budget(options, 1);
  Trace trace{std::vector<float>(entropy.size()), std::vector<int32_t>(entropy.size())};
  budget.push(0, static_cast<int32_t>(entropy.size()), entropy, trace.tokens, trace.counts);
  return trace;
}

TEST(Budget, StaysAtItsBaseWhileAHeadIsRigid) {
  const Trace trace = trace_of(small_options(), {9, 0, 1e-6f, 9e-6f, 0, 1e-7f, 9e-6f});
  EXPECT_EQ(trace.tokens, std::vector<float>(7, 256.0f));
  EXPECT_EQ(trace.counts, (std::vector<int32_t>{0, 8, 16, 24, 32, 32, 32}));
}

TEST(Budget, GrowsByWholeBlocksInASaturatedStep) {
  // r = 1.4 - 0.4 = 1 exactly in float32: half a base budget more, not one token less.
  const Trace trace = trace_of(small_options(), {9, 1, 8, 64, 512, 4096, 4096});
  EXPECT_EQ(trace.tokens, (std::vector<float>{256, 256, 384, 512, 640, 768, 768 - 128 * 0.4f}));
}

TEST(Budget, NeverLeavesItsClamps) {
  PrefillOptions options = small_options();
  const std::vector<float> falling = {9, 8, 4, 2, 1, 0.5f, 0.25f, 0.1f};
  for (const float tokens : trace_of(options, falling).tokens) EXPECT_EQ(tokens, 256.0f);
  options.min_budget = 128;
  EXPECT_EQ(trace_of(options, falling).tokens.back(), 128.0f);
}

TEST(Budget, LearnsCausallyThatAHeadIsDynamic) {
  PrefillOptions options = small_options();
  const std::vector<float> late = {9, 1e-8f, 9e-6f, 0, 1, 1};
  EXPECT_EQ(trace_of(options, late).tokens, (std::vector<float>{256, 256, 256, 256, 384, 384 - 128 * 0.4f}));
  // The released test looks into the future: the step of segment 2 counts already.
  options.rigid_test = RigidTest::kWholeTrace;
  EXPECT_GT(trace_of(options, late).tokens[2], 256.0f);
}

TEST(Budget, StaysFixedWhenToldTo) {
  PrefillOptions options = small_options();
  options.rule = PrefillRule::kFixed;
  EXPECT_EQ(trace_of(options, {9, 1, 8, 64, 512}).tokens, std::vector<float>(5, 256.0f));
}

TEST(Budget, TreatsNotANumberAsNoGrowth) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float tokens : trace_of(small_options(), {nan, 1, nan, 2, inf, inf, nan, 3}).tokens) {
    EXPECT_GE(tokens, 256.0f);
    EXPECT_LE(tokens, 768.0f);
  }
}

TEST(Budget, TakesTheLatestSegmentAgain) {
  const PrefillOptions options = small_options();
  EntropyBudget whole(options, 1);
  EntropyBudget resumed(options, 1);
  std::vector<float> tokens(4);
  std::vector<float> resumed_tokens(2);
  std::vector<int32_t> counts(4);
  whole.push(0, 4, std::vector<float>{9, 1, 1.5f, 2}, tokens, counts);
  resumed.push(0, 3, std::vector<float>{9, 1, 7}, {}, std::span(counts).first(3));  // segment 2 was half full
  resumed.push(2, 2, std::vector<float>{1.5f, 2}, resumed_tokens, std::span(counts).first(2));
  EXPECT_EQ(resumed_tokens, (std::vector<float>{tokens[2], tokens[3]}));
  EXPECT_EQ(resumed.next_segment(), 4);
}

TEST(Budget, CollapsesToTheLargestCountOfASegment) {
  std::vector<int32_t> counts = {1, 5, 3, 2, 4, 9};
  collapse_counts(counts, 2);
  EXPECT_EQ(counts, (std::vector<int32_t>{2, 5, 9, 2, 5, 9}));
}

TEST(Options, AreRefusedWithTheValueThatIsWrong) {
  PrefillOptions options = small_options();
  EXPECT_TRUE(validate(options).ok());
  options.block = 24;
  EXPECT_NE(validate(options).error().message.find("24 does not divide 64"), std::string::npos);
  options.block = 0;
  EXPECT_FALSE(validate(options).ok());
  options = small_options();
  options.max_factor = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(validate(options).ok());
  options = small_options();
  options.min_budget = 257;
  EXPECT_FALSE(validate(options).ok());
}

TEST(Options, NamesRoundTrip) {
  for (const char* name : {"ragged", "collapsed", "released"})
    EXPECT_STREQ(sparse_mode_name(sparse_mode_from_name(name).value()), name);
  EXPECT_FALSE(sparse_mode_from_name("Ragged").has_value());
  for (const char* name : {"none", "inverse-sqrt-dim"})
    EXPECT_STREQ(logit_scale_name(logit_scale_from_name(name).value()), name);
}

TEST(Options, MakeTheFirstAndTheLastSegmentsDense) {
  PrefillOptions options = small_options();
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
