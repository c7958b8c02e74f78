// What a conversation reads again and what it finds in the session, turn by turn.
#include "engine/conversation.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/generate.h"
#include "engine/prompt.h"
#include "support/embedded_engine.h"

namespace ei {
namespace {

constexpr int kAnswerTokens = 6;

text::ChatTemplate chatml() { return choose_template("chatml", embedded_engine().tokenizer()).value(); }

// Answers a turn with `kAnswerTokens` tokens and notes what was asked of it.
struct Listener {
  Session& session;
  std::vector<std::vector<int32_t>> prompts = {};
  std::vector<PrefixReuse> reuses = {};
  std::vector<std::string> answers = {};

  Result<std::string> operator()(const Conversation::Turn& turn) {
    prompts.emplace_back(turn.prompt.begin(), turn.prompt.end());
    reuses.push_back(turn.reuse);
    GenerateOptions options;
    options.max_tokens = kAnswerTokens;
    options.ignore_eos = true;
    options.sampler.temp = 0;
    EI_ASSIGN_OR_RETURN(const GenerateResult made,
                        generate(session, turn.prompt.subspan(static_cast<size_t>(turn.reuse.kept)), options, {}));
    answers.push_back(made.text);
    return made.text;
  }
};

TEST(Conversation, TakesAMessageBackAndGoesOnWithOthers) {
  const std::unique_ptr<Session> session = open_session(embedded_engine(), {});
  Conversation conversation(*session, chatml(), "Be short.");
  EXPECT_EQ(conversation.take_back(), std::nullopt) << "nothing but the system message";
  Listener listener{*session};
  const auto answer = std::ref(listener);
  ASSERT_TRUE(conversation.say("one", answer).ok());
  EXPECT_EQ(conversation.take_back(), "one");
  EXPECT_EQ(conversation.messages().size(), 1u);
  ASSERT_TRUE(conversation.say("one", answer).ok());
  EXPECT_EQ(listener.answers[0], listener.answers[1]);
  EXPECT_EQ(listener.prompts[0], listener.prompts[1]);
  Conversation other(*session, chatml());
  other.restore({conversation.messages().begin(), conversation.messages().end()});
  ASSERT_TRUE(other.say("two", answer).ok());
  EXPECT_GE(listener.reuses[2].kept, static_cast<int64_t>(listener.prompts[1].size()));
}

TEST(Conversation, ReadsOnlyWhatTheSessionDoesNotHold) {
  const std::unique_ptr<Session> session = open_session(embedded_engine(), {});
  Conversation conversation(*session, chatml(), "Be short.");
  Listener listener{*session};
  const auto answer = std::ref(listener);
  ASSERT_TRUE(conversation.say("The pass key is 48213.", answer).ok());
  EXPECT_EQ(listener.reuses[0].kept, 0);
  ASSERT_TRUE(conversation.say("What is the pass key?", answer).ok());
  // The whole first turn is there again, its answer but for the last token, which was never fed.
  EXPECT_GE(listener.reuses[1].kept, static_cast<int64_t>(listener.prompts[0].size()));
  EXPECT_EQ(listener.reuses[1].kept, listener.reuses[1].shared);
  EXPECT_EQ(session->stats().prompt_tokens + listener.reuses[1].kept,
            static_cast<int64_t>(listener.prompts[0].size() + listener.prompts[1].size()));
  ASSERT_EQ(conversation.messages().size(), 5u);
  EXPECT_EQ(conversation.messages()[0].role, "system");
  EXPECT_EQ(conversation.messages()[2].content, listener.answers[0]);

  // The same logits as one reading of it all.
  const std::unique_ptr<Session> fresh = open_session(embedded_engine(), {});
  Conversation again(*fresh, chatml(), "Be short.");
  Listener second{*fresh};
  ASSERT_TRUE(again.say("The pass key is 48213.", std::ref(second)).ok());
  EXPECT_EQ(second.answers[0], listener.answers[0]);
}

TEST(Conversation, ClearedBeginsAgainBehindTheSystemMessage) {
  const std::unique_ptr<Session> session = open_session(embedded_engine(), {});
  Conversation conversation(*session, chatml(), "Be short.");
  Listener listener{*session};
  ASSERT_TRUE(conversation.say("The pass key is 48213.", std::ref(listener)).ok());
  conversation.clear();
  ASSERT_EQ(conversation.messages().size(), 1u);
  ASSERT_TRUE(conversation.say("And who are you?", std::ref(listener)).ok());
  EXPECT_GT(listener.reuses[1].kept, 0) << "the system message is still in the cache";
  EXPECT_LT(listener.reuses[1].kept, static_cast<int64_t>(listener.prompts[0].size()));
  EXPECT_EQ(conversation.messages().size(), 3u);
}

TEST(Conversation, ATurnWithoutAnAnswerIsNotRemembered) {
  const std::unique_ptr<Session> session = open_session(embedded_engine(), {});
  Conversation conversation(*session, chatml());
  const Status failed = conversation.say("Never mind.", [](const Conversation::Turn&) -> Result<std::string> {
    return Error{ErrorKind::kInterrupted, "interrupted"};
  });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::kInterrupted);
  EXPECT_TRUE(conversation.messages().empty());
}

TEST(Conversation, LongerThanTheContextIsRefusedBeforeAnythingIsGivenUp) {
  SessionOptions options;
  options.context = 60;
  const std::unique_ptr<Session> session = open_session(embedded_engine(), options);
  Conversation conversation(*session, chatml());
  Listener listener{*session};
  ASSERT_TRUE(conversation.say("Hello.", std::ref(listener)).ok());
  const int64_t held = session->position();
  std::string lengthy;
  for (int i = 0; i < 60; ++i) lengthy += "word ";
  const Status refused = conversation.say(lengthy, std::ref(listener));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(session->position(), held);
  EXPECT_EQ(conversation.messages().size(), 2u);
}

TEST(Prefix, EndsAtTheFirstOtherTokenAndLeavesOneToRead) {
  const std::unique_ptr<Session> session = open_session(embedded_engine(), {});
  const std::vector<int32_t> tokens = random_tokens(50, 1);
  EXPECT_EQ(find_prefix(*session, tokens).shared, 0);
  ASSERT_TRUE(session->prefill(tokens).ok());
  EXPECT_EQ(find_prefix(*session, {}).shared, 0);
  EXPECT_EQ(find_prefix(*session, tokens).shared, 49);
  EXPECT_EQ(find_prefix(*session, std::span(tokens).first(20)).shared, 19);
  std::vector<int32_t> other = tokens;
  other[30] += 1;
  const Result<PrefixReuse> reused = reuse_prefix(*session, other);
  ASSERT_TRUE(reused.ok());
  EXPECT_EQ(reused->kept, 30);
  EXPECT_EQ(session->position(), 30);
  EXPECT_EQ(std::vector<int32_t>(session->tokens().begin(), session->tokens().end()),
            std::vector<int32_t>(tokens.begin(), tokens.begin() + 30));
}

TEST(Prefix, OfACacheWithoutItsTextIsNone) {
  const std::unique_ptr<Session> session = open_session(embedded_engine(), {});
  const std::vector<int32_t> tokens = random_tokens(50, 1);
  ASSERT_TRUE(session->prefill(tokens).ok());
  const std::unique_ptr<Session> other = open_session(embedded_engine(), {});
  ASSERT_TRUE(other->adopt(session->store().fork().value()).ok());
  EXPECT_EQ(other->position(), 50);
  EXPECT_EQ(find_prefix(*other, tokens).shared, 0);
  EXPECT_EQ(other->adopt(session->store().fork().value(), std::span(tokens).first(49)).error().kind, ErrorKind::kUsage);
  ASSERT_TRUE(other->adopt(session->store().fork().value(), tokens).ok());
  EXPECT_EQ(find_prefix(*other, tokens).shared, 49);
}

TEST(Prefix, OfACompressedCacheEndsWhereItCanGoOn) {
  SessionOptions options;
  options.kv = policy::KvOptions{.rule = policy::KvRule::kLatent, .budget = 64, .gap = 4, .window = 16, .repeat = 32};
  const std::unique_ptr<Session> session = open_session(embedded_engine(), options);
  const std::vector<int32_t> tokens = random_tokens(300, 1);
  ASSERT_TRUE(session->prefill(tokens).ok());
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(session->decode(likeliest(*session)).ok());
  ASSERT_FALSE(session->store().exact());
  const PrefixReuse reuse = find_prefix(*session, std::span(tokens).first(200));
  EXPECT_EQ(reuse.shared, 199);
  EXPECT_LT(reuse.kept, 199);
  EXPECT_EQ(reuse.kept, session->rewind_point(199));
}

}  // namespace
}  // namespace ei
