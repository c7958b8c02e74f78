// What the default method reads, by single properties (entropyinfer_counts_test.cpp has its formula).
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/prefill_run.h"

namespace ei::policy {
namespace {

using testing::PrefillRun;
using testing::PrefillTrace;
using testing::random_trace;

PrefillOptions entropy_options() {
  PrefillOptions options;
  options.rule = PrefillRule::kEntropy;
  options.select = BlockRank::kAdaptive;
  options.segment = 32;
  options.block = 8;
  options.threshold = 64;
  options.base_budget = 0;
  options.local_budget = 8;
  options.density = 0.2;
  options.density_base = 0;
  options.last_dense = false;
  return options;
}

// Two kv_heads in two layers, the second layer unsampled as the last one is.
PrefillTrace two_heads(const PrefillOptions& options, const AttentionSample& first, const AttentionSample& second) {
  PrefillTrace trace;
  trace.layers = 2;
  trace.kv_heads = 2;
  trace.tokens = 64 * options.segment;
  for (int32_t i = 0; i < trace.layers * trace.segments(options); ++i) {
    trace.measures.push_back({.midrange_entropy = 0, .sample = first});
    trace.measures.push_back({.midrange_entropy = 0, .sample = second});
  }
  return trace;
}

int32_t blocks_of(const PrefillOptions& options, const PrefillTrace& trace, size_t h) {
  PrefillRun run(options, trace);
  run.read_whole();
  return run.records(0)[50].heads[h].blocks;
}

TEST(EntropyInfer, ReadsMoreWhereRowsLookAtMoreDifferentPlaces) {
  const PrefillOptions options = entropy_options();
  const AttentionSample thin{.sink = 0, .far = 0.5f, .distant = 0.5f, .segment_entropy = 4, .row_entropy = 3.9f};
  AttentionSample lookup = thin;
  lookup.row_entropy = 1;
  const PrefillTrace trace = two_heads(options, thin, lookup);
  EXPECT_GT(blocks_of(options, trace, 1), 4 * blocks_of(options, trace, 0));
  AttentionSample near = thin;
  near.far = 0.01f;
  const PrefillTrace other = two_heads(options, thin, near);
  EXPECT_GT(blocks_of(options, other, 0), 4 * blocks_of(options, other, 1));
}

TEST(EntropyInfer, ReadsItsDensityInAll) {
  PrefillOptions options = entropy_options();
  options.local_budget = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    PrefillTrace trace = random_trace(options, seed);
    // Heads that stay as they are: what is shared out is what the pool knew.
    for (size_t i = 0; i < trace.measures.size(); ++i)
      trace.measures[i] = trace.measures[i % static_cast<size_t>(trace.kv_heads)];
    PrefillRun run(options, trace);
    run.read_whole();
    for (int32_t segment = 8; segment < trace.segments(options); ++segment) {
      double read = 0;
      for (int32_t layer = 0; layer + 1 < trace.layers; ++layer)
        for (const HeadRecord& head : run.records(layer)[static_cast<size_t>(segment)].heads) read += head.blocks;
      const int32_t heads = (trace.layers - 1) * trace.kv_heads;
      const double all = static_cast<double>(heads) * segment * 4;
      if (heads == 0) continue;
      EXPECT_NEAR(read / all, options.density, static_cast<double>(heads) / all) << "seed " << seed;
    }
  }
}

TEST(EntropyInfer, ATokenBudgetIsADensityThatFalls) {
  PrefillOptions options = entropy_options();
  options.base_budget = 128;
  const AttentionSample same{.sink = 0, .far = 0.5f, .distant = 0.5f, .segment_entropy = 4, .row_entropy = 3};
  const PrefillTrace trace = two_heads(options, same, same);
  PrefillRun run(options, trace);
  run.read_whole();
  EXPECT_EQ(run.records(0)[20].heads[0].blocks, 16);
  EXPECT_EQ(run.records(0)[60].heads[1].blocks, 16);
  EXPECT_EQ(run.records(0)[3].heads[1].blocks, 12) << "all there is";
}

TEST(EntropyInfer, TokensBesideTheDensityCountMostInShortTexts) {
  PrefillOptions options = entropy_options();
  options.density = 0.1;
  options.density_base = 64;
  const AttentionSample same{.sink = 0, .far = 0.5f, .distant = 0.5f, .segment_entropy = 4, .row_entropy = 3};
  const PrefillTrace trace = two_heads(options, same, same);
  PrefillRun run(options, trace);
  run.read_whole();
  EXPECT_EQ(run.records(0)[20].heads[0].blocks, 8 + 8);
  EXPECT_EQ(run.records(0)[60].heads[0].blocks, 24 + 8);
}

TEST(EntropyInfer, ShuffledWeightsReadAsMuchInOtherHeads) {
  PrefillOptions options = entropy_options();
  options.local_budget = 0;
  PrefillTrace trace;
  trace.layers = 5;
  trace.kv_heads = 4;
  trace.tokens = 40 * options.segment;
  for (int32_t row = 0; row < trace.layers * trace.segments(options); ++row)
    for (int32_t h = 0; h < trace.kv_heads; ++h)
      trace.measures.push_back({.midrange_entropy = 0,
                                .sample = {.sink = 0,
                                           .far = 0.5f,
                                           .distant = 0.5f,
                                           .segment_entropy = static_cast<float>(1 + h),
                                           .row_entropy = 1}});
  const auto counts = [&](int32_t seed) {
    options.shuffle = seed;
    PrefillRun run(options, trace);
    run.read_whole();
    std::vector<int32_t> all;
    for (int32_t layer = 0; layer + 1 < trace.layers; ++layer)
      for (const HeadRecord& head : run.records(layer)[30].heads) all.push_back(head.blocks);
    return all;
  };
  std::vector<int32_t> own = counts(0);
  std::vector<int32_t> others = counts(7);
  EXPECT_NE(own, others);
  std::sort(own.begin(), own.end());
  std::sort(others.begin(), others.end());
  EXPECT_EQ(own, others);
}

TEST(EntropyInfer, LetsOneHeadReadEverythingAndLeavesTheOthers) {
  PrefillOptions options = entropy_options();
  const AttentionSample sharp{.sink = 0.9f, .far = 0.05f, .distant = 0.05f, .segment_entropy = 1, .row_entropy = 1};
  const PrefillTrace trace = two_heads(options, sharp, sharp);
  const auto heads = [&](int32_t layer) {
    PrefillRun run(options, trace);
    run.read_whole();
    return run.records(layer)[30].heads;
  };
  const int32_t all = 30 * options.grid().blocks_per_segment();
  const int32_t own = heads(0)[0].blocks;
  ASSERT_LT(own, all);
  options.whole_layer = 0;
  EXPECT_EQ(heads(0)[0].blocks, all);
  EXPECT_EQ(heads(0)[1].blocks, all);
  options.whole_head = 1;
  EXPECT_EQ(heads(0)[0].blocks, own);
  EXPECT_EQ(heads(0)[1].blocks, all);
  EXPECT_EQ(heads(0)[1].ranking.candidates, 0) << "whoever reads everything rates everything";
  options.whole_layer = 1;
  EXPECT_EQ(heads(0)[1].blocks, own);
}

TEST(EntropyInfer, CallsAHeadDynamicThatOpensUp) {
  const PrefillOptions options = entropy_options();
  const AttentionSample sharp{.sink = 0.9f, .far = 0.05f, .distant = 0.05f, .segment_entropy = 1, .row_entropy = 1};
  PrefillTrace trace = two_heads(options, sharp, sharp);
  for (size_t i = 41; i < trace.measures.size(); i += 2) trace.measures[i].sample.segment_entropy = 3;
  PrefillRun run(options, trace);
  run.read_whole();
  EXPECT_TRUE(run.records(0)[60].heads[0].rigid);
  EXPECT_FALSE(run.records(0)[60].heads[1].rigid);
  EXPECT_TRUE(run.records(0)[10].heads[1].rigid) << "not before it does";
}

}  // namespace
}  // namespace ei::policy
