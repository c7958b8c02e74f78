// Sparse prefill through whole sessions, on the embedded model.
#include <gtest/gtest.h>

#include <cmath>

#include "support/sparse_sessions.h"

namespace ei {
namespace {

TEST(SparsePrefill, CollapsedMeansOneCountForAllKvHeadsOfALayer) {
  for (const policy::SparseMode mode : {policy::SparseMode::kRagged, policy::SparseMode::kCollapsed}) {
    policy::PrefillOptions options = small_options();
    options.rule = policy::PrefillRule::kHabit;
    options.mode = mode;
    const std::unique_ptr<Session> session = open_session(ggml_engine(), sparse_session(options));
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
  const std::unique_ptr<Session> session = open_session(ggml_engine(), sparse_session(small_options()));
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
  const std::unique_ptr<Session> session = open_session(ggml_engine(), sparse_session(options));
  ASSERT_TRUE(session->prefill(std::span(tokens).first(640)).ok());
  ASSERT_TRUE(session->prefill(std::span(tokens).subspan(640)).ok());
  EXPECT_EQ(logits_of(*session), logits_behind(sparse_session(options), tokens));
}

TEST(SparsePrefill, TurnsMayEndInsideSegmentsAndBlocks) {
  const std::vector<int32_t> tokens = random_tokens(1000, 8);
  const std::unique_ptr<Session> session = open_session(ggml_engine(), sparse_session(small_options()));
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
  SessionOptions options = sparse_session(small_options(), 64);
  options.prefill->last_dense = false;
  const std::vector<float> whole = logits_behind(options, tokens);
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
  const std::unique_ptr<Session> session = open_session(ggml_engine(), sparse_session(small_options()));
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

TEST(SparsePrefill, HandsOverEveryRowAsTheLastRowsOfShorterPromptsWouldBe) {
  policy::PrefillOptions options = small_options();
  options.last_dense = false;
  const std::vector<int32_t> tokens = random_tokens(640, 11);
  const std::vector<float> want = logits_behind(sparse_session(options), tokens);
  // The last layer's products have one row or all of them: some variants of ggml round by that number.
  EXPECT_LT(distance(last_handed_over(sparse_session(options), tokens), want), 0.01);
  options.base_budget = 256;
  EXPECT_GT(distance(logits_behind(sparse_session(options), tokens), want), 0.02)
      << "what other blocks would change must show";
}

}  // namespace
}  // namespace ei
