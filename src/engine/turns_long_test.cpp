// Whole conversations, read sparsely and compressed, bit for bit: minutes under a sanitizer.
#include <gtest/gtest.h>

#include "support/turns.h"

namespace ei {
namespace {

TEST(Turns, EqualDenseOnesBitForBitWhenTheBudgetOfThePromptCoversEverything) {
  SessionOptions covering = sparse_and_latent();
  covering.prefill->threshold = 0;
  covering.prefill->layer_skip = 0;
  covering.prefill->base_budget = 4096;
  SessionOptions dense = sparse_and_latent();
  dense.prefill = policy::PrefillOptions{};
  const auto session = open_session(one_provider_engine(), covering);
  EXPECT_EQ(converse(*session), converse(*open_session(one_provider_engine(), dense)));
  EXPECT_EQ(session->stats().compressions, 4);
}

TEST(Turns, StayInsideTheBudgetHoweverTheirPromptsAreCut) {
  const auto session = open_session(one_provider_engine(), sparse_and_latent(4096));
  const std::vector<std::vector<float>> whole = converse(*session);
  EXPECT_LE(longest(*session), kBudget + kRepeat);
  EXPECT_FALSE(session->store().exact());
  EXPECT_EQ(session->stats().compressions, 4);  // once in the first turn, twice in the second, once in the last
  EXPECT_LT(session->stats().density(), 0.9);
  EXPECT_EQ(session->planner()->held_bytes(), 0);
  for (const int64_t batch : {64, 100})
    EXPECT_EQ(converse(*open_session(one_provider_engine(), sparse_and_latent(batch))), whole) << "batch " << batch;
}

TEST_F(SavedTurns, AWholeCacheIsReadOnSparselyFromKeysAlone) {
  const auto session = open_session(one_provider_engine(), sparse_and_latent());
  ASSERT_TRUE(session->prefill(random_tokens(1024, 1)).ok());
  save(*session);
  const auto fresh = open_session(one_provider_engine(), sparse_and_latent());
  load_into(*fresh);
  ASSERT_TRUE(fresh->store().exact());
  ASSERT_TRUE(fresh->prefill(random_tokens(512, 2)).ok());
  EXPECT_LT(fresh->stats().density(), 0.9);
  EXPECT_GT(fresh->planner()->held_bytes(), 0);
  // A session that has read something else forgets it: the same logits bit for bit.
  const auto used = open_session(one_provider_engine(), sparse_and_latent(100));
  converse(*used);
  load_into(*used);
  EXPECT_EQ(used->planner()->held_bytes(), 0);
  ASSERT_TRUE(used->prefill(random_tokens(512, 2)).ok());
  EXPECT_EQ(logits_of(*used), logits_of(*fresh));
  EXPECT_EQ(speak(*used, 30), speak(*fresh, 30));
}

}  // namespace
}  // namespace ei
