// Sessions on the embedded model: rewinding, cancelling, several on one engine, refused input.
#include "engine/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "support/embedded_engine.h"

namespace ei {
namespace {

std::vector<int32_t> prompt(int count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = 10 + i * 7 % 900;
  return tokens;
}

TEST(Session, RewindingAndReadingAgainGivesTheSameLogits) {
  const std::unique_ptr<Session> session = open_session(embedded_engine(), {});
  const std::vector<int32_t> tokens = prompt(700);
  ASSERT_TRUE(session->prefill(tokens).ok());
  const std::vector<float> first = logits_of(*session);
  ASSERT_TRUE(session->truncate(512).ok());
  EXPECT_EQ(session->position(), 512);
  ASSERT_TRUE(session->prefill(std::span(tokens).subspan(512)).ok());
  EXPECT_EQ(logits_of(*session), first);
}

TEST(Session, LogitsOfChosenRowsAreThoseOfAllRows) {
  const std::vector<int32_t> tokens = prompt(700);
  SessionOptions options;
  options.batch = 256;
  std::vector<std::vector<float>> all;
  const auto keep = [&](int64_t, std::span<const float> row) { all.emplace_back(row.begin(), row.end()); };
  ASSERT_TRUE(open_session(embedded_engine(), options)->evaluate(tokens, keep).ok());
  ASSERT_EQ(all.size(), tokens.size());

  // Runs, single rows, a chunk without any, and not the last.
  const auto chosen = [](int64_t position) { return position < 300 && (position % 7 == 3 || position / 10 == 5); };
  std::vector<int64_t> seen;
  float worst = 0;
  const auto compare = [&](int64_t position, std::span<const float> row) {
    seen.push_back(position);
    const std::vector<float>& expected = all[static_cast<size_t>(position)];
    for (size_t i = 0; i < row.size(); ++i) worst = std::max(worst, std::abs(row[i] - expected[i]));
  };
  const std::unique_ptr<Session> some = open_session(embedded_engine(), options);
  ASSERT_TRUE(some->evaluate(tokens, compare, nullptr, chosen).ok());
  std::vector<int64_t> expected;
  for (int64_t position = 0; position < 700; ++position)
    if (chosen(position)) expected.push_back(position);
  EXPECT_EQ(seen, expected);
  EXPECT_LT(worst, 0.005f);  // fewer rows may be multiplied by another kernel
  const std::unique_ptr<Session> plain = open_session(embedded_engine(), options);
  ASSERT_TRUE(plain->prefill(tokens).ok());
  EXPECT_EQ(logits_of(*some), logits_of(*plain));
}

TEST(Session, ACancelledPromptKeepsWholeChunksAndCanGoOn) {
  CancelToken cancel;
  SessionOptions options;
  options.batch = 128;
  options.cancel = &cancel;
  const std::unique_ptr<Session> session = open_session(embedded_engine(), options);
  const std::vector<int32_t> tokens = prompt(1000);
  const Status stopped = session->prefill(tokens, [&](const PrefillProgress& progress) {
    if (progress.done >= 384) cancel.cancel();
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(session->position(), 384);
  cancel.reset();
  ASSERT_TRUE(session->prefill(std::span(tokens).subspan(384)).ok());
  SessionOptions chunked;
  chunked.batch = 128;
  const std::unique_ptr<Session> whole = open_session(embedded_engine(), chunked);
  ASSERT_TRUE(whole->prefill(tokens).ok());
  EXPECT_EQ(logits_of(*session), logits_of(*whole));
}

TEST(Session, TwoThreadsShareOneEngine) {
  const std::vector<int32_t> tokens = prompt(600);
  const std::unique_ptr<Session> alone = open_session(embedded_engine(), {});
  ASSERT_TRUE(alone->prefill(tokens).ok());
  std::vector<std::vector<float>> results(2);
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (std::vector<float>& result : results) {
    threads.emplace_back([&] {
      const std::unique_ptr<Session> session = open_session(embedded_engine(), {});
      ASSERT_TRUE(session->prefill(tokens).ok());
      result = logits_of(*session);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) EXPECT_EQ(result, logits_of(*alone));
}

TEST(Session, StatisticsCountPromptAndGenerationApart) {
  const std::unique_ptr<Session> session = open_session(embedded_engine(), {});
  ASSERT_TRUE(session->prefill(prompt(300)).ok());
  const double pairs = session->stats().pairs;
  EXPECT_EQ(pairs, 300.0 * 301 / 2 * embedded_engine().config().layers * embedded_engine().config().kv_heads);
  ASSERT_TRUE(session->decode(5).ok());
  EXPECT_EQ(session->stats().pairs, pairs);
  EXPECT_EQ(session->stats().prompt_tokens, 300);
  EXPECT_EQ(session->stats().generated_tokens, 1);
}

TEST(Session, RefusesWhatDoesNotFit) {
  SessionOptions options;
  options.context = 100;
  const std::unique_ptr<Session> session = open_session(embedded_engine(), options);
  EXPECT_EQ(session->prefill(prompt(101)).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(session->prefill({}).error().kind, ErrorKind::kUsage);
  const std::vector<int32_t> foreign = {1, 1 << 20};
  EXPECT_EQ(session->prefill(foreign).error().kind, ErrorKind::kUsage);
  ASSERT_TRUE(session->prefill(prompt(100)).ok());
  EXPECT_EQ(session->decode(1).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(session->position(), 100);
}

}  // namespace
}  // namespace ei
