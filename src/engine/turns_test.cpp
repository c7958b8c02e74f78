// Sparse prefill and KV compression together, over several turns: cancelled in the middle, saved and gone on with.
#include "support/turns.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ei {
namespace {

// Reads `tokens`, is stopped behind `at` of them, and reads on.
void read_in_two(Session& session, CancelToken& cancel, const std::vector<int32_t>& tokens, int64_t at) {
  const int64_t before = session.position();
  const Status stopped = session.prefill(tokens, [&](const PrefillProgress& progress) {
    if (progress.done >= at) cancel.cancel();
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(session.position(), before + at);
  cancel.reset();
  ASSERT_TRUE(session.prefill(std::span(tokens).subspan(static_cast<size_t>(at))).ok());
}

TEST(Turns, CancelledInAPromptOrBetweenTokensGoOnAsIfNothingHadBeen) {
  CancelToken cancel;
  const std::vector<int32_t> first = random_tokens(960, 1);
  const std::vector<int32_t> second = random_tokens(300, 2);
  const auto smooth = open_session(one_provider_engine(), sparse_and_latent(64));
  SessionOptions options = sparse_and_latent(64);
  options.cancel = &cancel;
  const auto session = open_session(one_provider_engine(), options);

  read_in_two(*session, cancel, first, 512);
  ASSERT_TRUE(smooth->prefill(first).ok());
  EXPECT_EQ(logits_of(*session), logits_of(*smooth));
  EXPECT_EQ(speak(*session, 10), speak(*smooth, 10));

  cancel.cancel();
  EXPECT_EQ(session->decode(5).error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(session->position(), 970);
  cancel.reset();
  EXPECT_EQ(speak(*session, 10), speak(*smooth, 10));
  ASSERT_EQ(session->stats().compressions, 1);
  ASSERT_EQ(smooth->stats().compressions, 1);

  read_in_two(*session, cancel, second, 128);  // over the survivors
  ASSERT_TRUE(smooth->prefill(second).ok());
  EXPECT_EQ(logits_of(*session), logits_of(*smooth));
  EXPECT_EQ(speak(*session, 40), speak(*smooth, 40));
  EXPECT_EQ(longest(*session), longest(*smooth));
}

TEST(Turns, ACancelledCompressionLeavesThePlannersIndexAsWell) {
  CancelToken cancel;
  SessionOptions options = sparse_and_latent(64);
  options.kv->gap = -1;
  options.cancel = &cancel;
  const auto session = open_session(one_provider_engine(), options);
  const Status stopped = session->prefill(random_tokens(1000, 1), [&](const PrefillProgress& progress) {
    if (progress.done == progress.total) cancel.cancel();
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_TRUE(session->store().exact());
  EXPECT_GT(session->planner()->held_bytes(), 0);
  cancel.reset();
  const auto undisturbed = [&] {
    SessionOptions keep = sparse_and_latent(64);
    keep.kv = policy::KvOptions{};
    return open_session(one_provider_engine(), keep);
  }();
  ASSERT_TRUE(undisturbed->prefill(random_tokens(1000, 1)).ok());
  EXPECT_EQ(logits_of(*session), logits_of(*undisturbed)) << "the prompt had been read";
  ASSERT_TRUE(session->decode(5).ok());  // makes up for it
  EXPECT_EQ(session->stats().compressions, 1);
  EXPECT_EQ(longest(*session), kBudget);
  EXPECT_EQ(session->planner()->held_bytes(), 0);
}

TEST_F(SavedTurns, ACompressedCacheGoesOnAsAPromptJustRead) {
  const auto session = open_session(one_provider_engine(), sparse_and_latent());
  ASSERT_TRUE(session->prefill(random_tokens(1000, 1)).ok());
  speak(*session, 20);
  ASSERT_EQ(session->stats().compressions, 1);
  save(*session);
  const auto other = open_session(one_provider_engine(), sparse_and_latent());
  load_into(*other);
  EXPECT_EQ(other->position(), 1020);
  EXPECT_TRUE(other->logits().empty()) << "they are not in the file";
  // A further turn reads the survivors densely: nothing but the cache decides.
  ASSERT_TRUE(session->prefill(random_tokens(300, 2)).ok());
  ASSERT_TRUE(other->prefill(random_tokens(300, 2)).ok());
  EXPECT_EQ(logits_of(*other), logits_of(*session));
  EXPECT_EQ(other->stats().density(), 1);
  // Its queries have filled the observer, so the next compression is the same too.
  EXPECT_EQ(speak(*other, 40), speak(*session, 40));
  EXPECT_EQ(other->stats().compressions, 1);
  EXPECT_EQ(longest(*other), longest(*session));
}

TEST_F(SavedTurns, TheGapIsCountedFromTheLoadAndOnlyQueriesSinceThenDecide) {
  const auto session = open_session(one_provider_engine(), sparse_and_latent());
  ASSERT_TRUE(session->prefill(random_tokens(1000, 1)).ok());
  speak(*session, kGap - 1);
  ASSERT_EQ(session->stats().compressions, 0);
  save(*session);
  const auto other = open_session(one_provider_engine(), sparse_and_latent());
  load_into(*other);
  for (int i = 0; i + 1 < kGap; ++i) {
    ASSERT_TRUE(other->decode(100 + i).ok());
    ASSERT_EQ(other->stats().compressions, 0);
    ASSERT_TRUE(other->store().exact());
  }
  ASSERT_TRUE(other->decode(100).ok());
  EXPECT_EQ(other->stats().compressions, 1);
  EXPECT_EQ(longest(*other), kBudget);
}

TEST_F(SavedTurns, ACacheOfOtherTypesOrTooLongIsRefusedAndChangesNothing) {
  const auto session = open_session(one_provider_engine(), sparse_and_latent());
  ASSERT_TRUE(session->prefill(random_tokens(200, 1)).ok());
  save(*session);
  SessionOptions wide = sparse_and_latent();
  wide.key_type = wide.value_type = DType::kF32;
  SessionOptions narrow = sparse_and_latent();
  narrow.context = 100;
  for (const SessionOptions& options : {wide, narrow}) {
    const auto other = open_session(one_provider_engine(), options);
    ASSERT_TRUE(other->prefill(random_tokens(50, 2)).ok());
    const std::vector<float> before = logits_of(*other);
    auto loaded = kv::Store::load(path_, one_provider_engine().model_hash(), one_provider_engine().backend());
    ASSERT_TRUE(loaded.ok());
    const Status refused = other->adopt(std::move(loaded).value());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(other->position(), 50);
    EXPECT_EQ(logits_of(*other), before);
  }
}

}  // namespace
}  // namespace ei
