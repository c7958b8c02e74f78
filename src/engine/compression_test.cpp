// KV compression in sessions on the embedded model: when it happens, what it holds to, and what it must not break.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "support/latent_sessions.h"

namespace ei {
namespace {

TEST(Compression, HappensAfterTheGapAndKeepsTheBudget) {
  const auto session = latent_session(latent(256, 16, 64));
  ASSERT_TRUE(session->prefill(random_tokens(1000, 1000)).ok());
  feed_likeliest(*session, 15);
  EXPECT_EQ(session->stats().compressions, 0);
  EXPECT_TRUE(session->store().exact());
  const int64_t before = session->store().bytes();
  feed_likeliest(*session, 1);
  EXPECT_EQ(session->stats().compressions, 1);
  EXPECT_EQ(longest(*session), 256);
  EXPECT_FALSE(session->store().exact());
  EXPECT_LT(session->store().bytes(), before / 2);
  const int64_t heads = one_thread_engine().config().layers * one_thread_engine().config().kv_heads;
  EXPECT_EQ(session->stats().evicted, heads * (1016 - 256));
  EXPECT_EQ(session->store().tokens_kept(), heads * 256);
  EXPECT_GT(session->stats().compress_s, 0);
  feed_likeliest(*session, 10);
  EXPECT_EQ(session->stats().compressed_tokens, 10);
  EXPECT_GT(session->stats().compressed_s, 0);
  EXPECT_LT(session->stats().compressed_s, session->stats().decode_s);
}

TEST(Compression, GapMinusOneCompressesWhenThePromptHasBeenRead) {
  const auto session = latent_session(latent(256, -1, 64));
  ASSERT_TRUE(session->prefill(random_tokens(1000, 1000)).ok());
  EXPECT_EQ(session->stats().compressions, 1);
  EXPECT_EQ(longest(*session), 256);
  EXPECT_EQ(session->position(), 1000);
}

TEST(Compression, UnevenSharesHoldALayerInsideBudgetPlusRepeatAtEveryStep) {
  const int64_t heads = one_thread_engine().config().kv_heads;
  policy::KvOptions options = latent(64, 16, 32);
  options.share = policy::KvShare::kAdaptive;
  const auto session = latent_session(options);
  EXPECT_EQ(session->most_slots(300, 20000), 317);
  ASSERT_TRUE(session->prefill(random_tokens(300, 300)).ok());
  bool uneven = false;
  for (int64_t step = 1; step <= 500; ++step) {
    ASSERT_TRUE(session->decode(likeliest(*session)).ok());
    for (int layer = 0; step >= 16 && layer < one_thread_engine().config().layers; ++layer) {
      int64_t slots = 0;
      for (int h = 0; h < heads; ++h) slots += session->store().length(layer, h);
      ASSERT_LE(slots, heads * (64 + 32)) << "after " << step << " tokens";
      uneven = uneven || session->store().length(layer, 0) != session->store().length(layer, 1);
    }
  }
  EXPECT_TRUE(uneven);
  EXPECT_EQ(session->stats().compressions, 1 + (500 - 16) / 32);
  for (const float logit : session->logits()) ASSERT_TRUE(std::isfinite(logit));
}

TEST(Compression, NothingHappensWhileTheCacheFitsItsBudget) {
  const auto session = latent_session(latent(256, 16, 64));
  const auto full = latent_session({});
  const std::vector<int32_t> tokens = random_tokens(150, 150);
  for (Session* each : {session.get(), full.get()}) {
    ASSERT_TRUE(each->prefill(tokens).ok());
    feed_likeliest(*each, 106);
  }
  EXPECT_EQ(session->position(), 256);
  EXPECT_EQ(session->stats().compressions, 0);
  EXPECT_EQ(session->stats().evicted, 0);
  EXPECT_TRUE(session->store().exact());
  EXPECT_EQ(logits_of(*session), logits_of(*full));
}

TEST(Compression, PromptsOfOneTokenAndShorterThanTheWindowWork) {
  for (const int64_t count : {1, 5, 31}) {
    const auto session = latent_session(latent(40, 4, 8));
    ASSERT_TRUE(session->prefill(random_tokens(count, static_cast<uint64_t>(count))).ok());
    for (int step = 0; step < 100; ++step) {
      ASSERT_TRUE(session->decode(likeliest(*session)).ok());
      ASSERT_LE(longest(*session), 48);
    }
    EXPECT_GT(session->stats().compressions, 5);
  }
}

TEST(Compression, ABudgetThatHoldsWhatIsAttendedToKeepsTheAnswer) {
  // The last slots and the sinks carry this model's attention on random text: the likeliest token survives.
  const auto session = latent_session(latent(1024, 16, 256));
  const auto full = latent_session({});
  const std::vector<int32_t> tokens = random_tokens(2000, 2000);
  ASSERT_TRUE(session->prefill(tokens).ok());
  ASSERT_TRUE(full->prefill(tokens).ok());
  for (int step = 0; step < 16; ++step) {
    const int32_t token = likeliest(*full);
    ASSERT_TRUE(session->decode(token).ok());
    ASSERT_TRUE(full->decode(token).ok());
  }
  EXPECT_EQ(logits_of(*session), logits_of(*full));  // the token that triggers it still saw everything
  ASSERT_EQ(session->stats().compressions, 1);
  const int32_t token = likeliest(*full);
  ASSERT_TRUE(session->decode(token).ok());
  ASSERT_TRUE(full->decode(token).ok());
  EXPECT_NE(logits_of(*session), logits_of(*full));
  EXPECT_EQ(likeliest(*session), likeliest(*full));
}

TEST(Compression, ASecondTurnReadsOverTheSurvivorsAndCompressesAgain) {
  const auto session = latent_session(latent(256, 16, 64));
  ASSERT_TRUE(session->prefill(random_tokens(1000, 1000)).ok());
  feed_likeliest(*session, 20);
  ASSERT_EQ(session->stats().compressions, 1);
  ASSERT_TRUE(session->prefill(random_tokens(700, 700)).ok());
  EXPECT_EQ(longest(*session), 256 + 4 + 700);
  EXPECT_FALSE(session->store().exact());
  feed_likeliest(*session, 16);
  EXPECT_EQ(session->stats().compressions, 2);
  EXPECT_EQ(longest(*session), 256);
}

TEST(Compression, RewindsIntoTheRecentWindowButNotIntoAGap) {
  const auto session = latent_session(latent(256, 16, 64));
  const std::vector<int32_t> tokens = random_tokens(1000, 1000);
  ASSERT_TRUE(session->prefill(tokens).ok());
  feed_likeliest(*session, 30);
  ASSERT_EQ(session->stats().compressions, 1);
  EXPECT_EQ(session->rewind_point(1030), 1030);
  EXPECT_EQ(session->rewind_point(1000), 1000);  // inside the last 32 of the compression at 1016
  const int64_t point = session->rewind_point(700);
  EXPECT_LT(point, 700);
  const Status refused = session->truncate(700);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(session->position(), 1030);
  ASSERT_TRUE(session->truncate(1000).ok());
  EXPECT_FALSE(session->store().exact());
  feed_likeliest(*session, 0);
  ASSERT_TRUE(session->prefill(std::vector<int32_t>{5, 6, 7}).ok());
  EXPECT_EQ(session->position(), 1003);
  // Reading again from the first gap gives what a session gives that never compressed.
  const int64_t again = session->rewind_point(700);
  ASSERT_TRUE(session->truncate(again).ok());
  EXPECT_TRUE(session->store().exact());
  ASSERT_TRUE(session->truncate(0).ok());
  ASSERT_TRUE(session->prefill(tokens).ok());
  const auto fresh = latent_session({});
  ASSERT_TRUE(fresh->prefill(tokens).ok());
  EXPECT_EQ(logits_of(*session), logits_of(*fresh));
}

TEST(Compression, ACancelledOneChangesNothingAndIsMadeUpWithTheNextToken) {
  CancelToken cancel;
  const auto session = latent_session(latent(256, 16, 64), &cancel);
  const std::vector<int32_t> tokens = random_tokens(1000, 1000);
  // Cancel from within the progress report of the last chunk: the prompt is read, only the compression is left.
  const auto at_once = latent_session(latent(256, -1, 64), &cancel);
  const Status stopped = at_once->prefill(tokens, [&](const PrefillProgress& progress) {
    if (progress.done == progress.total) cancel.cancel();
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(at_once->position(), 1000);
  EXPECT_TRUE(at_once->store().exact());
  EXPECT_EQ(at_once->stats().compressions, 0);
  EXPECT_EQ(at_once->decode(5).error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(at_once->position(), 1000);
  cancel.reset();
  ASSERT_TRUE(at_once->decode(5).ok());
  EXPECT_EQ(at_once->position(), 1001);
  EXPECT_EQ(at_once->stats().compressions, 1);
  EXPECT_EQ(longest(*at_once), 256);
}

TEST(Compression, ACompressedStoreIsSavedAndLoadedAndGoesOnTheSame) {
  const std::string path = testing::TempDir() + "compressed_" + std::to_string(getpid()) + ".kv";
  const auto session = latent_session(latent(256, 16, 64));
  ASSERT_TRUE(session->prefill(random_tokens(1000, 1000)).ok());
  feed_likeliest(*session, 20);
  ASSERT_EQ(session->stats().compressions, 1);
  ASSERT_TRUE(session->store().save(path, one_thread_engine().model_hash()).ok());
  const auto other = latent_session(latent(256, 16, 64));
  auto loaded = kv::Store::load(path, one_thread_engine().model_hash(), one_thread_engine().backend());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  ASSERT_TRUE(other->adopt(std::move(loaded).value()).ok());
  EXPECT_EQ(other->position(), 1020);
  EXPECT_FALSE(other->store().exact());
  for (int step = 0; step < 15; ++step) {
    ASSERT_TRUE(session->decode(100 + step).ok());
    ASSERT_TRUE(other->decode(100 + step).ok());
    ASSERT_EQ(logits_of(*other), logits_of(*session));
  }
  ASSERT_TRUE(other->decode(7).ok());  // its own sixteenth token: compresses by the queries it has seen itself
  EXPECT_EQ(other->stats().compressions, 1);
  EXPECT_EQ(longest(*other), 256);
  unlink(path.c_str());
}

// What the choice of blocks keeps about the keys is of no use once some of them are gone.
TEST(Compression, TheIndexOfASparsePromptGoesWithTheKeys) {
  SessionOptions options;
  options.method = "entropyinfer";
  options.prefill = policy::find_method("entropyinfer")->prefill;
  options.prefill->segment = 64;
  options.prefill->threshold = 128;
  options.prefill->base_budget = 64;
  options.kv = latent(128, 4, 64);
  const auto session = open_session(one_thread_engine(), options);
  const std::vector<int32_t> tokens = random_tokens(1000, 1000);
  ASSERT_TRUE(session->prefill(tokens).ok());
  EXPECT_LT(session->stats().density(), 0.9);
  const std::vector<float> first = logits_of(*session);
  EXPECT_GT(session->planner()->held_bytes(), 0);
  feed_likeliest(*session, 4);
  ASSERT_EQ(session->stats().compressions, 1);
  EXPECT_EQ(session->planner()->held_bytes(), 0);
  ASSERT_TRUE(session->prefill(random_tokens(300, 300)).ok()) << "a second turn reads what survived";
  feed_likeliest(*session, 80);
  EXPECT_LE(longest(*session), 128 + 64);
  ASSERT_TRUE(session->truncate(0).ok());
  ASSERT_TRUE(session->prefill(tokens).ok());
  EXPECT_EQ(logits_of(*session), first) << "from the beginning all is as it was";
}

TEST(Compression, AllIsDecidedByTheTextNotByHowItWasCut) {
  const std::vector<int32_t> tokens = random_tokens(896, 896);
  std::vector<std::vector<int64_t>> kept;
  for (const int64_t batch : {896, 128}) {
    SessionOptions options;
    options.kv = latent(128, 0, 64);
    options.batch = batch;
    const auto session = open_session(one_thread_engine(), options);
    ASSERT_TRUE(session->prefill(tokens).ok());
    ASSERT_EQ(session->stats().compressions, 1);
    std::vector<int64_t>& all = kept.emplace_back();
    for (int layer = 0; layer < one_thread_engine().config().layers; ++layer) {
      const KvView view = session->store().view(layer);
      for (const KvHeadView& head : view.heads)
        for (int64_t slot = 0; slot < head.length; ++slot) all.push_back(head.position(slot));
    }
  }
  EXPECT_EQ(kept[0], kept[1]);
}

TEST(Compression, MemoryIsAskedForWhatWillBeHeldNotForTheWholeText) {
  const auto session = latent_session(latent(256, 16, 64));
  EXPECT_EQ(session->most_slots(100, 50), 150);
  EXPECT_EQ(session->most_slots(100, 20000), 320);
  EXPECT_EQ(session->most_slots(5000, 20000), 5017);
  EXPECT_EQ(latent_session({})->most_slots(5000, 20000), 25000);
  EXPECT_EQ(latent_session(latent(256, 16, 0))->most_slots(5000, 20000), 25000);
}

}  // namespace
}  // namespace ei
