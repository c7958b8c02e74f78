// Sparse prefill through whole sessions over many shapes: minutes under a sanitizer.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "support/sparse_sessions.h"

namespace ei {
namespace {

TEST(SparsePrefill, EqualsDenseBitForBitWhenTheBudgetCoversEverything) {
  for (const policy::BlockRank rank :
       {policy::BlockRank::kMidrange, policy::BlockRank::kPeak, policy::BlockRank::kAdaptive}) {
    for (const int64_t length : {1, 2, 31, 511, 512, 513, 1100}) {
      policy::PrefillOptions options = small_options();
      options.threshold = 0;
      options.layer_skip = 0;
      options.base_budget = 4096;
      rank_by(rank, options);
      const std::vector<int32_t> tokens = random_tokens(length, 3);
      EXPECT_EQ(logits_behind(sparse_session(options), tokens), logits_behind({}, tokens)) << length << " tokens";
    }
  }
}

// The preset as it is, with nothing but a larger budget.
TEST(SparsePrefill, EqualsDenseAtTheSizesOfThePresetWithTheDefaultProducts) {
  const std::unique_ptr<Engine> standard = load_dense("cpu", "");
  const std::vector<int32_t> tokens = random_tokens(6000, 4);
  const std::vector<float> dense = logits_behind({}, tokens, *standard);
  const std::pair<int32_t, int32_t> sizes[] = {{512, 8}, {128, 16}};
  for (const auto& [segment, block] : sizes) {
    policy::PrefillOptions options = policy::find_method("entropyinfer")->prefill;
    options.segment = segment;
    options.block = block;
    options.base_budget = 16384;
    EXPECT_EQ(logits_behind(sparse_session(options), tokens, *standard), dense) << segment << ", " << block;
    if (block != 8) continue;
    options.base_budget = 512;
    EXPECT_NE(logits_behind(sparse_session(options), tokens, *standard), dense) << "nothing was left out";
  }
}

TEST(SparsePrefill, BlocksOfAnySizeThatDividesTheSegment) {
  const std::vector<int32_t> tokens = random_tokens(500, 15);
  const std::vector<float> dense = logits_behind({}, tokens);
  const std::pair<int32_t, int32_t> sizes[] = {{60, 1}, {60, 12}, {100, 10}, {64, 64}, {48, 16}};
  for (const auto& [segment, block] : sizes) {
    for (const policy::BlockRank rank : {policy::BlockRank::kMidrange, policy::BlockRank::kAdaptive}) {
      if (rank == policy::BlockRank::kAdaptive && block % 8 != 0) continue;  // refused
      policy::PrefillOptions options = small_options();
      options.segment = segment;
      options.block = block;
      rank_by(rank, options);
      const std::vector<float> whole = logits_behind(sparse_session(options), tokens);
      EXPECT_EQ(logits_behind(sparse_session(options, 64), tokens), whole) << segment << ", " << block;
      EXPECT_NE(whole, dense) << segment << ", " << block << ": nothing was left out";
    }
  }
}

TEST(SparsePrefill, DoesNotDependOnHowAPromptIsCut) {
  const std::vector<int32_t> tokens = random_tokens(1000, 5);
  for (const policy::BlockRank rank :
       {policy::BlockRank::kMidrange, policy::BlockRank::kPeak, policy::BlockRank::kAdaptive}) {
    policy::PrefillOptions options = small_options();
    rank_by(rank, options);
    const std::vector<float> whole = logits_behind(sparse_session(options, 4096), tokens);
    for (const int64_t batch : {1, 64, 100, 512})
      EXPECT_EQ(logits_behind(sparse_session(options, batch), tokens), whole) << block_rank_name(rank) << ", " << batch;
    EXPECT_NE(whole, logits_behind({}, tokens)) << "nothing was left out";
  }
}

TEST(SparsePrefill, DoesNotDependOnHowAPromptIsCutWhoeverRanks) {
  const std::vector<int32_t> tokens = random_tokens(1000, 5);
  std::vector<std::vector<float>> found;
  for (const policy::RankQueries queries :
       {policy::RankQueries::kGroup, policy::RankQueries::kHeads, policy::RankQueries::kAll}) {
    policy::PrefillOptions options = small_options();
    options.rank_queries = queries;
    found.push_back(logits_behind(sparse_session(options, 4096), tokens));
    EXPECT_EQ(logits_behind(sparse_session(options, 100), tokens), found.back()) << rank_queries_name(queries);
  }
  EXPECT_NE(found[0], found[1]);
  EXPECT_NE(found[1], found[2]);
}

TEST(SparsePrefill, AgreesWithTheReferenceBackend) {
  const std::unique_ptr<Engine> reference = load_dense("reference");
  const std::vector<int32_t> tokens = random_tokens(200, 12);
  for (const policy::BlockRank rank : {policy::BlockRank::kMidrange, policy::BlockRank::kOracleMax}) {
    policy::PrefillOptions options = small_options();
    options.segment = 32;
    options.threshold = 32;
    options.base_budget = 32;
    options.logit_scale = policy::LogitScale::kNone;  // with larger budgets, and fewer edges, for most kv_heads
    rank_by(rank, options);
    SessionOptions cpu = sparse_session(options);
    cpu.key_type = cpu.value_type = DType::kF32;
    const std::vector<float> ours = logits_behind(cpu, tokens);
    const std::unique_ptr<Session> slow = open_session(*reference, sparse_session(options));
    ASSERT_TRUE(slow->prefill(tokens).ok());
    const std::vector<float> want = logits_of(*slow);
    // A block at the edge of a budget may fall either way: weights of 8 bits leave activations apart by 1e-3.
    EXPECT_LT(distance(ours, want), 0.05) << policy::block_rank_name(rank);
  }
}

TEST(SparsePrefill, EveryModeAndRankRuns) {
  const std::vector<int32_t> tokens = random_tokens(400, 13);
  for (const policy::SparseMode mode :
       {policy::SparseMode::kRagged, policy::SparseMode::kCollapsed, policy::SparseMode::kReleased}) {
    for (const policy::BlockRank rank :
         {policy::BlockRank::kMidrange, policy::BlockRank::kPeak, policy::BlockRank::kAdaptive,
          policy::BlockRank::kOracleSum, policy::BlockRank::kOracleMax}) {
      for (const bool fusion : {false, true}) {
        policy::PrefillOptions options = small_options();
        rank_by(rank, options);
        options.mode = mode;
        options.layer_fusion = fusion;
        if (!policy::validate(options).ok()) continue;
        for (const float logit : logits_behind(sparse_session(options), tokens)) ASSERT_TRUE(std::isfinite(logit));
      }
    }
  }
}

// And in pieces, which may end inside a segment.
TEST(SparsePrefill, TheReleasedPresetReadsAPromptAsOneChunk) {
  SessionOptions options;
  options.method = "entropyinfer-released";
  options.kv = policy::KvOptions{};
  const std::vector<int32_t> tokens = random_tokens(6000, 14);
  const std::vector<float> whole = logits_behind(options, tokens);
  for (const int64_t batch : {512, 200}) {
    options.batch = batch;
    EXPECT_EQ(logits_behind(options, tokens), whole) << batch;
  }
}

}  // namespace
}  // namespace ei
