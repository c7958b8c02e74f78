// A prompt's cache through a file, on the embedded model.
#include "engine/prompt_cache.h"

#include <gtest/gtest.h>

#include "support/sparse_sessions.h"
#include "support/temp_folder.h"

namespace ei {
namespace {

class PromptCache : public ::testing::Test {
 protected:
  static SessionOptions full() { return {}; }
  static std::unique_ptr<Session> open(const SessionOptions& options = full()) {
    return open_session(ggml_engine(), options);
  }
  // A session has read the tokens and written the file.
  void write(const std::vector<int32_t>& tokens, const SessionOptions& options = full()) {
    const std::unique_ptr<Session> session = open(options);
    ASSERT_TRUE(session->prefill(tokens).ok());
    ASSERT_TRUE(save_prompt(*session, path_).ok());
  }

  kv::TempFolder folder_;
  const std::string path_ = folder_.file("prompt");
  const std::vector<int32_t> tokens_ = random_tokens(900, 3);
};

TEST_F(PromptCache, TheSamePromptGivesTheSameLogits) {
  write(tokens_);
  const std::unique_ptr<Session> session = open();
  const auto found = load_prompt(*session, path_, tokens_);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->kept, 899);
  EXPECT_EQ(found->saved, 900);
  EXPECT_EQ(session->position(), 899);
  ASSERT_TRUE(session->prefill(std::span(tokens_).subspan(899)).ok());
  EXPECT_EQ(logits_of(*session), logits_behind(full(), tokens_));
}

TEST_F(PromptCache, ALongerOrAnotherPromptTakesWhatIsTheSame) {
  write(tokens_);
  std::vector<int32_t> longer = tokens_;
  const std::vector<int32_t> more = random_tokens(70, 4);
  longer.insert(longer.end(), more.begin(), more.end());
  const std::unique_ptr<Session> first = open();
  EXPECT_EQ(load_prompt(*first, path_, longer)->kept, 900);
  ASSERT_TRUE(first->prefill(std::span(longer).subspan(900)).ok());
  EXPECT_EQ(logits_of(*first), logits_behind(full(), longer));
  std::vector<int32_t> other = tokens_;
  other[500] ^= 1;
  const std::unique_ptr<Session> second = open();
  EXPECT_EQ(load_prompt(*second, path_, other)->kept, 500);
  const std::unique_ptr<Session> third = open();
  const auto nothing = load_prompt(*third, path_, random_tokens(40, 9));
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->kept, 0);
  EXPECT_NE(nothing->why, "");
  EXPECT_EQ(third->position(), 0);
}

TEST_F(PromptCache, WhatWasReadOtherwiseIsNotTaken) {
  write(tokens_, sparse_session(small_options()));
  const std::unique_ptr<Session> dense = open();
  const auto found = load_prompt(*dense, path_, tokens_);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->kept, 0);
  EXPECT_NE(found->why.find("another method"), std::string::npos);
  policy::PrefillOptions options = small_options();
  EXPECT_EQ(load_prompt(*open(sparse_session(options)), path_, tokens_)->kept, 899);
  options.density = 0.5;
  options.base_budget = 0;
  EXPECT_EQ(load_prompt(*open(sparse_session(options)), path_, tokens_)->kept, 0);
  SessionOptions wide;
  wide.key_type = wide.value_type = DType::kF32;
  write(tokens_);
  EXPECT_EQ(load_prompt(*open(wide), path_, tokens_)->kept, 0);
}

TEST_F(PromptCache, ACompressedCacheIsNotSaved) {
  SessionOptions options;
  options.method = "snapkv";
  options.kv = policy::find_method("snapkv")->kv;
  options.kv->budget = 128;
  const std::unique_ptr<Session> session = open(options);
  ASSERT_TRUE(session->prefill(tokens_).ok());
  ASSERT_FALSE(session->store().exact());
  const Status saved = save_prompt(*session, path_);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(folder_.num_files(), 0);
}

}  // namespace
}  // namespace ei
