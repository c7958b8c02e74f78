// A prompt in steps: the same as in one call, whatever comes between.
#include <gtest/gtest.h>

#include "engine/generation.h"
#include "support/turns.h"

namespace ei {
namespace {

void read_in_steps(Session& session, const std::vector<int32_t>& tokens, std::vector<int64_t> steps) {
  ASSERT_TRUE(session.begin_prompt(tokens).ok());
  for (size_t i = 0;; ++i) {
    const Result<int64_t> left = session.read_chunk(steps[i % steps.size()]);
    ASSERT_TRUE(left.ok()) << left.error().message;
    if (*left == 0) return;
  }
}

TEST(Reading, InStepsGivesTheLogitsAndTheStatisticsOfOneCall) {
  const std::vector<int32_t> tokens = random_tokens(700, 3);
  const auto whole = open_session(embedded_engine(), {});
  const auto stepped = open_session(embedded_engine(), {});
  ASSERT_TRUE(whole->prefill(tokens).ok());
  read_in_steps(*stepped, tokens, {64, 1, 200});
  EXPECT_EQ(logits_of(*stepped), logits_of(*whole));
  EXPECT_EQ(stepped->stats().prompt_tokens, 700);
  EXPECT_EQ(speak(*stepped, 5), speak(*whole, 5));
}

TEST(Reading, OfASparsePromptInStepsChoosesTheSameBlocks) {
  const std::vector<int32_t> tokens = random_tokens(960, 4);
  const auto whole = open_session(one_provider_engine(), sparse_and_latent(64));
  const auto stepped = open_session(one_provider_engine(), sparse_and_latent(64));
  ASSERT_TRUE(whole->prefill(tokens).ok());
  read_in_steps(*stepped, tokens, {64, 128});
  EXPECT_EQ(logits_of(*stepped), logits_of(*whole));
  EXPECT_EQ(stepped->stats().pairs, whole->stats().pairs);
  EXPECT_LT(stepped->stats().density(), 1.0);
}

TEST(Reading, OfTwoPromptsByTurnsChangesNeither) {
  const std::vector<int32_t> first = random_tokens(300, 5);
  const std::vector<int32_t> second = random_tokens(280, 6);
  const auto one = open_session(embedded_engine(), {});
  const auto two = open_session(embedded_engine(), {});
  ASSERT_TRUE(one->begin_prompt(first).ok());
  ASSERT_TRUE(two->begin_prompt(second).ok());
  for (int64_t left_one = 1, left_two = 1; left_one + left_two > 0;) {
    if (left_one > 0) left_one = one->read_chunk(64).value();
    if (left_two > 0) left_two = two->read_chunk(96).value();
  }
  const auto alone = open_session(embedded_engine(), {});
  ASSERT_TRUE(alone->prefill(first).ok());
  EXPECT_EQ(logits_of(*one), logits_of(*alone));
}

TEST(Reading, EndsWithAnErrorOrAnotherCall) {
  const auto session = open_session(embedded_engine(), {});
  EXPECT_FALSE(session->read_chunk().ok()) << "nothing was begun";
  EXPECT_FALSE(session->begin_prompt({}).ok());
  ASSERT_TRUE(session->begin_prompt(random_tokens(100, 7)).ok());
  ASSERT_TRUE(session->read_chunk(32).ok());
  ASSERT_TRUE(session->decode(5).ok());
  EXPECT_FALSE(session->read_chunk().ok());
  EXPECT_EQ(session->position(), 33);
}

TEST(Generation, StopsInFrontOfAStopStringAndSaysWhich) {
  const auto session = open_session(embedded_engine(), {});
  GenerateOptions options;
  options.max_tokens = 24;
  options.ignore_eos = true;
  options.sampler.temp = 0;
  const std::vector<int32_t> prompt = random_tokens(40, 8);
  const auto free = generate(*session, prompt, options, {});
  ASSERT_TRUE(free.ok());
  ASSERT_GT(free->text.size(), 6u);
  options.stop = {"never to be seen", free->text.substr(free->text.size() / 2, 3)};
  const auto again = open_session(embedded_engine(), {});
  const auto generation = Generation::begin(*again, prompt, options);
  ASSERT_TRUE(generation.ok());
  Generation& steps = **generation;
  EXPECT_EQ(steps.left_to_read(), 40);
  while (steps.stage() == Generation::Stage::kReading) ASSERT_TRUE(steps.read(16).ok());
  std::string text;
  while (steps.stage() != Generation::Stage::kFinished) {
    const auto piece = steps.sample();
    ASSERT_TRUE(piece.ok());
    text += piece->text;
    if (steps.stage() != Generation::Stage::kFeeding) continue;
    ASSERT_TRUE(steps.feed().ok());
  }
  text += steps.rest();
  EXPECT_EQ(text, free->text.substr(0, free->text.find(options.stop[1])));
  EXPECT_EQ(steps.ending(), Generation::Ending::kStopString);
  EXPECT_EQ(steps.stopped_by(), options.stop[1]);
}

}  // namespace
}  // namespace ei
