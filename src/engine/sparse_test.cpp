// Sparse prefill through whole sessions, on the embedded model.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/embedded_engine.h"

namespace ei {
namespace {

// One provider for any number of rows, so that cuts of a prompt may be compared bit for bit.
std::unique_ptr<Engine> load(const std::string& backend, const std::string& dense = "ggml") {
  EngineOptions options;
  options.backend = backend;
  options.backend_options.dense = dense;
  return load_embedded(options);
}

const Engine& ggml_engine() {
  static const std::unique_ptr<Engine> loaded = load("cpu");
  return *loaded;
}

// Small segments, so that short prompts have many of them.
policy::PrefillOptions small_options() {
  policy::PrefillOptions options = policy::find_method("entropyinfer")->prefill;
  options.segment = 64;
  options.block = 8;
  options.threshold = 128;
  options.base_budget = 64;
  return options;
}

// Entropies are sampled while blocks are ranked by adaptive; others go with the published budgets.
void rank_by(policy::BlockRank rank, policy::PrefillOptions& options) {
  options.select = rank;
  if (rank != policy::BlockRank::kAdaptive) options.rule = policy::PrefillRule::kGrowth;
}

SessionOptions with(const policy::PrefillOptions& prefill, int64_t batch = 0) {
  SessionOptions options;
  options.method = "entropyinfer";
  options.prefill = prefill;
  options.kv = policy::KvOptions{};
  options.batch = batch;
  return options;
}

std::vector<float> read(const SessionOptions& options, const std::vector<int32_t>& tokens,
                        const Engine& on = ggml_engine()) {
  const std::unique_ptr<Session> session = open_session(on, options);
  EXPECT_TRUE(session->prefill(tokens).ok());
  return logits_of(*session);
}

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
      EXPECT_EQ(read(with(options), tokens), read({}, tokens)) << length << " tokens";
    }
  }
}

// The preset as it is, with nothing but a larger budget.
TEST(SparsePrefill, EqualsDenseAtTheSizesOfThePresetWithTheDefaultProducts) {
  const std::unique_ptr<Engine> standard = load("cpu", "");
  const std::vector<int32_t> tokens = random_tokens(6000, 4);
  const std::vector<float> dense = read({}, tokens, *standard);
  const std::pair<int32_t, int32_t> sizes[] = {{512, 8}, {128, 16}};
  for (const auto& [segment, block] : sizes) {
    policy::PrefillOptions options = policy::find_method("entropyinfer")->prefill;
    options.segment = segment;
    options.block = block;
    options.base_budget = 16384;
    EXPECT_EQ(read(with(options), tokens, *standard), dense) << segment << ", " << block;
    if (block != 8) continue;
    options.base_budget = 512;
    EXPECT_NE(read(with(options), tokens, *standard), dense) << "nothing was left out";
  }
}

TEST(SparsePrefill, BlocksOfAnySizeThatDividesTheSegment) {
  const std::vector<int32_t> tokens = random_tokens(500, 15);
  const std::vector<float> dense = read({}, tokens);
  const std::pair<int32_t, int32_t> sizes[] = {{60, 1}, {60, 12}, {100, 10}, {64, 64}, {48, 16}};
  for (const auto& [segment, block] : sizes) {
    for (const policy::BlockRank rank : {policy::BlockRank::kMidrange, policy::BlockRank::kAdaptive}) {
      if (rank == policy::BlockRank::kAdaptive && block % 8 != 0) continue;  // refused
      policy::PrefillOptions options = small_options();
      options.segment = segment;
      options.block = block;
      rank_by(rank, options);
      const std::vector<float> whole = read(with(options), tokens);
      EXPECT_EQ(read(with(options, 64), tokens), whole) << segment << ", " << block;
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
    const std::vector<float> whole = read(with(options, 4096), tokens);
    for (const int64_t batch : {1, 64, 100, 512})
      EXPECT_EQ(read(with(options, batch), tokens), whole) << block_rank_name(rank) << ", " << batch;
    EXPECT_NE(whole, read({}, tokens)) << "nothing was left out";
  }
}

TEST(SparsePrefill, DoesNotDependOnHowAPromptIsCutWhoeverRanks) {
  const std::vector<int32_t> tokens = random_tokens(1000, 5);
  std::vector<std::vector<float>> found;
  for (const policy::RankQueries queries :
       {policy::RankQueries::kGroup, policy::RankQueries::kHeads, policy::RankQueries::kAll}) {
    policy::PrefillOptions options = small_options();
    options.rank_queries = queries;
    found.push_back(read(with(options, 4096), tokens));
    EXPECT_EQ(read(with(options, 100), tokens), found.back()) << rank_queries_name(queries);
  }
  EXPECT_NE(found[0], found[1]);
  EXPECT_NE(found[1], found[2]);
}

TEST(SparsePrefill, CollapsedMeansOneCountForAllKvHeadsOfALayer) {
  for (const policy::SparseMode mode : {policy::SparseMode::kRagged, policy::SparseMode::kCollapsed}) {
    policy::PrefillOptions options = small_options();
    options.rule = policy::PrefillRule::kHabit;
    options.mode = mode;
    const std::unique_ptr<Session> session = open_session(ggml_engine(), with(options));
    session->planner()->keep_blocks(true);
    ASSERT_TRUE(session->prefill(random_tokens(1500, 6)).ok());
    int differ = 0;
    for (int layer = 0; layer < ggml_engine().config().layers; ++layer)
      for (const policy::SegmentRecord& record : session->planner()->records(layer))
        for (const policy::HeadRecord& head : record.heads)
          differ += head.chosen.size() != record.heads[0].chosen.size();
    EXPECT_EQ(differ == 0, mode == policy::SparseMode::kCollapsed);
  }
}

TEST(SparsePrefill, ReadsLessAndSaysSo) {
  const std::unique_ptr<Session> session = open_session(ggml_engine(), with(small_options()));
  ASSERT_TRUE(session->prefill(random_tokens(2000, 6)).ok());
  EXPECT_LT(session->stats().density(), 0.6);
  EXPECT_GT(session->stats().density(), 0.05);
  EXPECT_GT(session->stats().profile_s, 0);
  EXPECT_GT(session->stats().plan_s, 0);
}

TEST(SparsePrefill, ASecondTurnGoesOnWhereTheFirstEnded) {
  policy::PrefillOptions options = small_options();
  options.last_dense = false;
  const std::vector<int32_t> tokens = random_tokens(1280, 7);
  const std::unique_ptr<Session> session = open_session(ggml_engine(), with(options));
  ASSERT_TRUE(session->prefill(std::span(tokens).first(640)).ok());
  ASSERT_TRUE(session->prefill(std::span(tokens).subspan(640)).ok());
  EXPECT_EQ(logits_of(*session), read(with(options), tokens));
}

TEST(SparsePrefill, TurnsMayEndInsideSegmentsAndBlocks) {
  const std::vector<int32_t> tokens = random_tokens(1000, 8);
  const std::unique_ptr<Session> session = open_session(ggml_engine(), with(small_options()));
  size_t done = 0;
  for (const size_t turn : {1, 70, 3, 300, 12, 401}) {
    ASSERT_TRUE(session->prefill(std::span(tokens).subspan(done, turn)).ok());
    done += turn;
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(session->decode(20 + i).ok());
  }
  EXPECT_EQ(session->position(), static_cast<int64_t>(done) + 6 * 40);
  for (const float logit : logits_of(*session)) ASSERT_TRUE(std::isfinite(logit));
}

TEST(SparsePrefill, ACancelledPromptCanGoOn) {
  CancelToken cancel;
  const std::vector<int32_t> tokens = random_tokens(1280, 9);
  SessionOptions options = with(small_options(), 64);
  options.prefill->last_dense = false;
  const std::vector<float> whole = read(options, tokens);
  options.cancel = &cancel;
  const std::unique_ptr<Session> session = open_session(ggml_engine(), options);
  const Status stopped = session->prefill(tokens, [&](const PrefillProgress& progress) {
    if (progress.done >= 512) cancel.cancel();
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(session->position(), 512);
  cancel.reset();
  ASSERT_TRUE(session->prefill(std::span(tokens).subspan(512)).ok());
  EXPECT_EQ(logits_of(*session), whole);
}

TEST(SparsePrefill, RewindingAndReadingAgainGivesTheSameLogits) {
  const std::vector<int32_t> tokens = random_tokens(1280, 10);
  const std::unique_ptr<Session> session = open_session(ggml_engine(), with(small_options()));
  ASSERT_TRUE(session->prefill(tokens).ok());
  const std::vector<float> first = logits_of(*session);
  for (const int64_t position : {1216, 640, 0}) {
    ASSERT_TRUE(session->truncate(position).ok());
    ASSERT_TRUE(session->prefill(std::span(tokens).subspan(static_cast<size_t>(position))).ok());
    EXPECT_EQ(logits_of(*session), first) << "from " << position;
  }
}

// The last row of all that are handed over.
std::vector<float> last_handed_over(const SessionOptions& options, const std::vector<int32_t>& tokens) {
  std::vector<float> row;
  const auto last = static_cast<int64_t>(tokens.size()) - 1;
  const Status status =
      open_session(ggml_engine(), options)->evaluate(tokens, [&](int64_t position, std::span<const float> logits) {
        if (position == last) row.assign(logits.begin(), logits.end());
      });
  EXPECT_TRUE(status.ok());
  return row;
}

// Root mean square of the difference, in that of `want`.
double distance(const std::vector<float>& have, const std::vector<float>& want) {
  EXPECT_EQ(have.size(), want.size());
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(have[i] - want[i]), 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(difference / size);
}

TEST(SparsePrefill, HandsOverEveryRowAsTheLastRowsOfShorterPromptsWouldBe) {
  policy::PrefillOptions options = small_options();
  options.last_dense = false;
  const std::vector<int32_t> tokens = random_tokens(640, 11);
  const std::vector<float> want = read(with(options), tokens);
  // The last layer's products have one row or all of them: some variants of ggml round by that number.
  EXPECT_LT(distance(last_handed_over(with(options), tokens), want), 0.01);
  options.base_budget = 256;
  EXPECT_GT(distance(read(with(options), tokens), want), 0.02) << "what other blocks would change must show";
}

TEST(SparsePrefill, AgreesWithTheReferenceBackend) {
  const std::unique_ptr<Engine> reference = load("reference");
  const std::vector<int32_t> tokens = random_tokens(200, 12);
  for (const policy::BlockRank rank : {policy::BlockRank::kMidrange, policy::BlockRank::kOracleMax}) {
    policy::PrefillOptions options = small_options();
    options.segment = 32;
    options.threshold = 32;
    options.base_budget = 32;
    options.logit_scale = policy::LogitScale::kNone;  // with larger budgets, and fewer edges, for most kv_heads
    rank_by(rank, options);
    SessionOptions cpu = with(options);
    cpu.key_type = cpu.value_type = DType::kF32;
    const std::vector<float> ours = read(cpu, tokens);
    const std::unique_ptr<Session> slow = open_session(*reference, with(options));
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
        for (const float logit : read(with(options), tokens)) ASSERT_TRUE(std::isfinite(logit));
      }
    }
  }
}

TEST(SparsePrefill, TheReleasedPresetReadsAPromptAsOneChunk) {
  SessionOptions options;
  options.method = "entropyinfer-released";
  options.kv = policy::KvOptions{};
  const std::vector<int32_t> tokens = random_tokens(6000, 14);
  const std::vector<float> whole = read(options, tokens);
  options.batch = 512;
  EXPECT_EQ(read(options, tokens), whole);
}

}  // namespace
}  // namespace ei
