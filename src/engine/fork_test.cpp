// A fork answers as a session that has read the prompt itself.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/embedded_engine.h"

namespace ei {
namespace {

std::vector<int32_t> prompt_of(int64_t tokens) {
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < tokens; ++i) prompt.push_back(static_cast<int32_t>(100 + (i * i * 31 + i * 7) % 3000));
  return prompt;
}

std::unique_ptr<Session> session_with(const policy::KvOptions& kv) {
  SessionOptions options;
  options.kv = kv;
  auto made = embedded_engine().new_session(options);
  EXPECT_TRUE(made.ok());
  return std::move(*made);
}

std::vector<int32_t> greedy(Session& session, int count) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    const std::span<const float> logits = session.logits();
    tokens.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    EXPECT_TRUE(session.decode(tokens.back()).ok());
  }
  return tokens;
}

policy::KvOptions reader_of(policy::KvOptions kv) {
  kv.keep_slots(1 << 30);  // only watches
  return kv;
}

TEST(Forks, CompressAsASessionThatReadThePromptItself) {
  const std::vector<int32_t> prompt = prompt_of(700);
  for (const int32_t gap : {-1, 4}) {
    for (const int32_t window : {16, 32}) {
      SCOPED_TRACE(gap);
      policy::KvOptions kv = policy::find_method("entropyinfer")->kv;
      kv.gap = gap;
      kv.keep_slots(128);
      kv.window = window;
      policy::KvOptions watching = reader_of(kv);
      watching.window = 32;
      const auto reader = session_with(watching);
      ASSERT_TRUE(reader->prefill(prompt).ok());
      EXPECT_EQ(reader->stats().compressions, 0);
      SessionOptions options;
      options.kv = kv;
      const auto fork = reader->fork(options);
      ASSERT_TRUE(fork.ok()) << fork.error().message;
      const auto alone = session_with(kv);
      ASSERT_TRUE(alone->prefill(prompt).ok());
      EXPECT_EQ((*fork)->stats().compressions, alone->stats().compressions);
      EXPECT_EQ(greedy(**fork, 12), greedy(*alone, 12));
      EXPECT_EQ((*fork)->stats().compressions, 1);
      EXPECT_EQ((*fork)->stats().evicted, alone->stats().evicted);
      EXPECT_EQ((*fork)->store().tokens_kept(), alone->store().tokens_kept());
      for (int layer = 0; layer < alone->store().config().layers; ++layer) {
        for (int h = 0; h < alone->store().config().kv_heads; ++h) {
          const KvHeadView ours = (*fork)->store().view(layer).heads[static_cast<size_t>(h)];
          const KvHeadView theirs = alone->store().view(layer).heads[static_cast<size_t>(h)];
          ASSERT_EQ(ours.listed, theirs.listed);
          EXPECT_TRUE(std::equal(ours.listed_positions, ours.listed_positions + ours.listed, theirs.listed_positions));
        }
      }
      EXPECT_EQ(reader->store().tokens_kept(), reader->store().tokens_total()) << "the first session keeps all";
      EXPECT_EQ(reader->stats().compressions, 0);
    }
  }
}

TEST(Forks, OfAMethodThatWatchesNothingTakeNoQueries) {
  SessionOptions options;
  options.method = "streaming";
  policy::KvOptions kv = policy::find_method("streaming")->kv;
  kv.keep_slots(1 << 30);
  const auto reader = session_with(kv);
  ASSERT_TRUE(reader->prefill(prompt_of(300)).ok());
  options.method = "snapkv";
  options.kv = policy::find_method("snapkv")->kv;
  options.kv->keep_slots(64);
  const auto fork = reader->fork(options);
  ASSERT_TRUE(fork.ok()) << fork.error().message;
  EXPECT_EQ((*fork)->stats().compressions, 0) << "nothing to score by";
}

TEST(Forks, GoOnIndependentlyOfEachOther) {
  const std::vector<int32_t> prompt = prompt_of(300);
  const auto reader = session_with({});
  ASSERT_TRUE(reader->prefill(prompt).ok());
  const auto one = reader->fork({});
  const auto two = reader->fork({});
  ASSERT_TRUE(one.ok() && two.ok());
  ASSERT_TRUE((*one)->prefill(prompt_of(40)).ok());
  const std::vector<int32_t> first = greedy(**two, 6);
  EXPECT_EQ(greedy(*reader, 6), first);
  EXPECT_EQ((*one)->position(), 340);
  EXPECT_EQ((*two)->stats().prompt_tokens, 300);
  EXPECT_EQ((*one)->tokens()[299], prompt[299]) << "it knows the text";
  EXPECT_EQ((*one)->tokens().size(), 340u);
}

TEST(Forks, RefuseAContextThatIsTooShort) {
  const auto reader = session_with({});
  ASSERT_TRUE(reader->prefill(prompt_of(64)).ok());
  SessionOptions options;
  options.context = 32;
  EXPECT_FALSE(reader->fork(options).ok());
}

}  // namespace
}  // namespace ei
