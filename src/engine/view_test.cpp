// A session that goes on keeps the whole cache, and generates over a compressed view of it.
#include <gtest/gtest.h>

#include "engine/prefix.h"
#include "support/latent_sessions.h"

namespace ei {
namespace {

constexpr int64_t kViewPrompt = 1000;
constexpr int32_t kGap = 16;

std::unique_ptr<Session> session_with(const policy::KvOptions& kv, bool keep_whole,
                                      const CancelToken* cancel = nullptr) {
  SessionOptions options;
  options.kv = kv;
  options.keep_whole = keep_whole;
  options.cancel = cancel;
  return open_session(one_thread_engine(), options);
}

std::unique_ptr<Session> whole_session(int32_t gap = kGap) { return session_with(latent(256, gap, 64), true); }

TEST(View, LeavesTheCacheWholeAndShrinksWhatIsRead) {
  const auto session = whole_session();
  ASSERT_TRUE(session->prefill(random_tokens(kViewPrompt, 1)).ok());
  feed_likeliest(*session, kGap - 1);
  EXPECT_FALSE(session->has_view());
  EXPECT_EQ(&session->reading(), &session->store());
  feed_likeliest(*session, 1);
  ASSERT_TRUE(session->has_view());
  EXPECT_EQ(session->stats().compressions, 1);
  EXPECT_TRUE(session->store().exact());
  EXPECT_EQ(session->store().next_position(), kViewPrompt + kGap);
  EXPECT_EQ(session->reading().average_slots(), 256);
  feed_likeliest(*session, 10);
  EXPECT_EQ(session->position(), kViewPrompt + kGap + 10);
  EXPECT_EQ(session->tokens().size(), static_cast<size_t>(session->position()));
  EXPECT_EQ(session->store().next_position(), kViewPrompt + kGap) << "what is generated goes into the view alone";
  EXPECT_EQ(session->stats().compressed_tokens, 10);
  EXPECT_LT(session->reading().bytes(), session->store().bytes() / 2);
}

TEST(View, GeneratesWhatAFreedCacheWouldBitForBit) {
  const auto whole = whole_session();
  const auto freed = session_with(latent(256, kGap, 64), false);
  ASSERT_TRUE(whole->prefill(random_tokens(kViewPrompt, 2)).ok());
  ASSERT_TRUE(freed->prefill(random_tokens(kViewPrompt, 2)).ok());
  for (int i = 0; i < 100; ++i) {  // over the second compression
    const int32_t token = likeliest(*whole);
    ASSERT_EQ(likeliest(*freed), token);
    ASSERT_TRUE(whole->decode(token).ok());
    ASSERT_TRUE(freed->decode(token).ok());
    ASSERT_EQ(logits_of(*whole), logits_of(*freed)) << "token " << i;
  }
  EXPECT_EQ(whole->stats().compressions, freed->stats().compressions);
  EXPECT_TRUE(whole->store().exact());
  EXPECT_FALSE(freed->store().exact());
}

// The next question must find everything: as if nothing had ever been compressed.
TEST(View, ANextTurnReadsTheWholeTextBitForBit) {
  const auto session = whole_session();
  const auto full = session_with({}, false);
  const std::vector<int32_t> question = random_tokens(200, 4);
  ASSERT_TRUE(session->prefill(random_tokens(kViewPrompt, 3)).ok());
  ASSERT_TRUE(full->prefill(random_tokens(kViewPrompt, 3)).ok());
  std::vector<int32_t> behind;  // what only the view holds: full attention reads it as a prompt, too
  for (int i = 0; i < kGap + 20; ++i) {
    const int32_t token = likeliest(*session);
    ASSERT_TRUE(session->decode(token).ok());
    if (i >= kGap) {
      behind.push_back(token);
      continue;
    }
    ASSERT_TRUE(full->decode(token).ok());
  }
  ASSERT_TRUE(session->has_view());
  ASSERT_TRUE(session->prefill(question).ok());
  EXPECT_FALSE(session->has_view());
  behind.insert(behind.end(), question.begin(), question.end());
  ASSERT_TRUE(full->prefill(behind).ok());
  EXPECT_EQ(session->position(), full->position());
  EXPECT_EQ(logits_of(*session), logits_of(*full));
  feed_likeliest(*session, kGap);
  EXPECT_TRUE(session->has_view()) << "and its answer is generated over a view again";
}

TEST(View, HandsOverTheLogitsOfNewTokensOnly) {
  const auto session = whole_session();
  ASSERT_TRUE(session->prefill(random_tokens(kViewPrompt, 5)).ok());
  feed_likeliest(*session, kGap + 5);
  const int64_t before = session->position();
  std::vector<int64_t> seen;
  ASSERT_TRUE(
      session
          ->evaluate(random_tokens(7, 6), [&](int64_t position, std::span<const float>) { seen.push_back(position); })
          .ok());
  ASSERT_EQ(seen.size(), 7u);
  EXPECT_EQ(seen.front(), before);
  EXPECT_EQ(session->position(), before + 7);
}

TEST(View, RewindsAnywhereInTheTextAndNotIntoTheView) {
  const auto session = whole_session();
  const std::vector<int32_t> tokens = random_tokens(kViewPrompt, 7);
  ASSERT_TRUE(session->prefill(tokens).ok());
  feed_likeliest(*session, kGap + 10);
  EXPECT_EQ(session->rewind_point(session->position()), kViewPrompt + kGap);
  EXPECT_EQ(session->rewind_point(500), 500);
  EXPECT_FALSE(session->truncate(kViewPrompt + kGap + 3).ok());
  EXPECT_TRUE(session->has_view()) << "a refusal changes nothing";
  std::vector<int32_t> prompt(session->tokens().begin(), session->tokens().end());
  prompt.push_back(42);
  EXPECT_EQ(find_prefix(*session, prompt).shared, kViewPrompt + kGap + 10);
  EXPECT_EQ(find_prefix(*session, prompt).kept, kViewPrompt + kGap);
  ASSERT_TRUE(session->truncate(500).ok());
  EXPECT_FALSE(session->has_view());
  EXPECT_EQ(session->position(), 500);
  EXPECT_EQ(session->tokens().size(), 500u);
}

TEST(View, ACancelledCompressionLeavesNone) {
  CancelToken cancel;
  const auto session = session_with(latent(256, -1, 64), true, &cancel);
  const Status stopped = session->prefill(random_tokens(kViewPrompt, 8), [&](const PrefillProgress& progress) {
    if (progress.done == progress.total) cancel.cancel();
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_FALSE(session->has_view());
  cancel.reset();
  ASSERT_TRUE(session->decode(5).ok());  // makes up for it
  EXPECT_TRUE(session->has_view());
  EXPECT_TRUE(session->store().exact());
}

TEST(Acted, ComparesTheCacheWithAShareOfTheText) {
  policy::KvOptions kv = policy::find_method("entropyinfer")->kv;
  ASSERT_TRUE(policy::set_budget(kv, "25%").ok());  // of 400 tokens; the preset would hold them all
  const auto session = session_with(kv, false);
  ASSERT_TRUE(session->prefill(random_tokens(400, 9)).ok());
  EXPECT_NE(session->acted().kv_idle.find("--kv-gap"), std::string::npos) << session->acted().kv_idle;
}

TEST(Acted, SaysWhatWasLeftOutAndWhyNothingWas) {
  const auto full = session_with({}, false);
  ASSERT_TRUE(full->prefill(random_tokens(50, 9)).ok());
  EXPECT_FALSE(full->acted().any());
  EXPECT_TRUE(full->acted().idle().empty()) << "nothing was asked for";

  SessionOptions options;
  options.method = "entropyinfer";
  const auto session = open_session(one_thread_engine(), options);
  ASSERT_TRUE(session->prefill(random_tokens(1200, 9)).ok());
  Acted acted = session->acted();
  EXPECT_FALSE(acted.any());
  ASSERT_EQ(acted.idle().size(), 2u);
  EXPECT_NE(acted.idle()[0].find("--threshold"), std::string::npos) << acted.idle()[0];
  EXPECT_NE(acted.idle()[1].find("--kv-gap"), std::string::npos) << acted.idle()[1];
  feed_likeliest(*session, policy::find_method("entropyinfer")->kv.gap);
  acted = session->acted();
  EXPECT_TRUE(acted.kv);
  ASSERT_EQ(acted.idle().size(), 1u);
  EXPECT_NE(acted.idle()[0].find("1200 tokens"), std::string::npos) << "of the prompt: " << acted.idle()[0];
}

std::string why_read_whole(const policy::PrefillOptions& prefill, std::initializer_list<size_t> parts) {
  SessionOptions options;
  options.prefill = prefill;
  const auto session = open_session(one_thread_engine(), options);
  for (const size_t tokens : parts) EXPECT_TRUE(session->prefill(random_tokens(tokens, 9)).ok());
  EXPECT_FALSE(session->acted().any());
  return session->acted().prefill_idle;
}

TEST(Acted, SaysWhichRuleReadsAPromptWhole) {
  policy::PrefillOptions prefill = policy::find_method("critiprefill")->prefill;
  prefill.threshold = prefill.base_budget = 64;
  EXPECT_EQ(why_read_whole(prefill, {931}),
            "the prompt was read whole: 931 tokens, and segments of 512 that begin in the first 64 (--threshold), and "
            "the last one, always are");
  EXPECT_EQ(why_read_whole(prefill, {700, 700}),
            "the prompt was read whole: it came in parts, and of each the first and the last segment of 512 always "
            "are");
  prefill.base_budget = 2048;
  EXPECT_EQ(why_read_whole(prefill, {1200}),
            "the prompt was read whole: what may be read before a segment, 2048 tokens (--base-budget), covered it");
  prefill.layer_skip = 1000;
  EXPECT_EQ(why_read_whole(prefill, {1200}),
            "the prompt was read whole: the first 1000 layers always are (--layer-skip), and no other attends beyond a "
            "sliding window");
  prefill = policy::find_method("entropyinfer")->prefill;
  prefill.threshold = 64;
  prefill.density_base = 4096;
  EXPECT_EQ(why_read_whole(prefill, {1200}),
            "the prompt was read whole: what may be read before a segment, 0.065 of it and 4096 tokens more "
            "(--density, --density-base), covered it");
}

TEST(Acted, CountsABudgetThatIsAShareOfTheText) {
  SessionOptions options;
  options.kv = policy::find_kv_rule(policy::KvRule::kLatent)->preset;
  ASSERT_TRUE(policy::set_budget(*options.kv, "20%").ok());
  const auto session = open_session(one_thread_engine(), options);
  ASSERT_TRUE(session->prefill(random_tokens(400, 9)).ok());
  ASSERT_EQ(session->acted().idle().size(), 1u);
  EXPECT_NE(session->acted().idle()[0].find("--kv-gap"), std::string::npos) << session->acted().idle()[0];
  const auto other = open_session(one_thread_engine(), options);
  ASSERT_TRUE(other->prefill(random_tokens(20, 9)).ok());
  EXPECT_NE(other->acted().idle()[0].find("holds 20 tokens, and its budget is 33 "), std::string::npos)
      << "the window and one more: " << other->acted().idle()[0];
}

}  // namespace
}  // namespace ei
