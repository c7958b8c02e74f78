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
  options.kv->keep_slots(128);
  const std::unique_ptr<Session> session = open(options);
  ASSERT_TRUE(session->prefill(tokens_).ok());
  ASSERT_FALSE(session->store().exact());
  const Status saved = save_prompt(*session, path_);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(folder_.num_files(), 0);
}

// Ctrl-C while it reads: what was read is a text like any other.
TEST_F(PromptCache, APartOfAPromptIsReadOnAsIfNothingHadHappened) {
  policy::PrefillOptions by_density = small_options();
  by_density.base_budget = 0;
  by_density.density = 0.3;
  by_density.density_base = 16;
  for (SessionOptions options : {full(), sparse_session(by_density)}) {
    SCOPED_TRACE(options.method);
    CancelToken cancel;
    options.batch = 128;
    options.cancel = &cancel;
    const std::unique_ptr<Session> cut = open(options);
    const Status read = cut->prefill(tokens_, [&](const PrefillProgress& state) {
      if (state.done >= 500) cancel.cancel();
    });
    ASSERT_FALSE(read.ok());
    ASSERT_EQ(read.error().kind, ErrorKind::kInterrupted);
    const int64_t held = cut->position();
    ASSERT_TRUE(held > 0 && held < 900) << held;
    ASSERT_TRUE(save_prompt(*cut, path_).ok());
    options.cancel = nullptr;
    const std::unique_ptr<Session> session = open(options);
    ASSERT_EQ(load_prompt(*session, path_, tokens_)->kept, held);
    ASSERT_TRUE(session->prefill(std::span(tokens_).subspan(static_cast<size_t>(held))).ok());
    EXPECT_EQ(logits_of(*session), logits_behind(options, tokens_));
  }
}

TEST_F(PromptCache, WhatWasReadSparselyIsKnownFromTheFile) {
  policy::PrefillOptions by_density = small_options();
  by_density.base_budget = 0;
  by_density.density = 0.3;
  by_density.density_base = 16;
  const SessionOptions options = sparse_session(by_density);
  const std::unique_ptr<Session> read = open(options);
  ASSERT_TRUE(read->prefill(tokens_).ok());
  const Acted first = read->acted();
  ASSERT_TRUE(first.prefill);
  ASSERT_LT(read->stats().density(), 0.9);
  EXPECT_NEAR(first.text_density, read->stats().density(), 1e-9) << "it has read all of it itself";
  ASSERT_TRUE(save_prompt(*read, path_).ok());
  const std::unique_ptr<Session> loaded = open(options);
  ASSERT_EQ(load_prompt(*loaded, path_, tokens_)->kept, 899);
  ASSERT_TRUE(loaded->prefill(std::span(tokens_).subspan(899)).ok());
  const Acted acted = loaded->acted();
  EXPECT_EQ(loaded->stats().density(), 1.0) << "of its own token";
  EXPECT_TRUE(acted.prefill);
  EXPECT_EQ(acted.prefill_idle, "");
  EXPECT_NEAR(acted.text_density, first.text_density, 0.01);
  ASSERT_TRUE(loaded->truncate(0).ok());
  ASSERT_TRUE(loaded->prefill(std::span(tokens_).first(100)).ok());
  EXPECT_EQ(loaded->acted().text_density, 1.0) << "nothing of the file is left";
}

// The next compression decides by the queries of the prompt as well, which nobody has computed in this session.
TEST_F(PromptCache, ACompressionBehindItKeepsWhatItKeepsBehindTheText) {
  SessionOptions options;
  options.kv = policy::find_kv_rule(policy::KvRule::kLatent)->preset;
  options.kv->keep_slots(128);
  options.kv->gap = 8;
  options.kv->repeat = 16;
  write(tokens_, options);
  const std::unique_ptr<Session> read = open(options);
  ASSERT_TRUE(read->prefill(tokens_).ok());
  const std::unique_ptr<Session> loaded = open(options);
  ASSERT_EQ(load_prompt(*loaded, path_, tokens_)->kept, 899);
  ASSERT_TRUE(loaded->prefill(std::span(tokens_).subspan(899)).ok());
  for (int32_t token = 100; token < 130; ++token) {
    ASSERT_TRUE(read->decode(token).ok());
    ASSERT_TRUE(loaded->decode(token).ok());
  }
  EXPECT_EQ(read->stats().compressions, 2);
  EXPECT_EQ(loaded->stats().compressions, 2);
  for (int layer = 0; layer < read->store().config().layers; ++layer)
    for (size_t h = 0; h < read->store().view(layer).heads.size(); ++h) {
      const KvHeadView& ours = loaded->store().view(layer).heads[h];
      const KvHeadView& theirs = read->store().view(layer).heads[h];
      ASSERT_EQ(ours.length, theirs.length);
      for (int64_t slot = 0; slot < ours.length; ++slot) ASSERT_EQ(ours.position(slot), theirs.position(slot));
    }
  EXPECT_EQ(logits_of(*loaded), logits_of(*read));
}

// By what was measured of the text before: entropies that nobody has sampled in this session.
TEST_F(PromptCache, ASparsePromptBehindItReadsWhatItReadsBehindTheText) {
  policy::PrefillOptions small = small_options();
  small.base_budget = 0;
  const SessionOptions options = sparse_session(small);
  write(tokens_, options);
  std::vector<int32_t> longer = tokens_;
  const std::vector<int32_t> more = random_tokens(500, 5);
  longer.insert(longer.end(), more.begin(), more.end());
  const std::unique_ptr<Session> read = open(options);
  ASSERT_TRUE(read->prefill(tokens_).ok());
  const auto fork = read->fork(options);
  ASSERT_TRUE(fork.ok());
  const std::unique_ptr<Session> loaded = open(options);
  ASSERT_EQ(load_prompt(*loaded, path_, longer)->kept, 900);
  const std::unique_ptr<Session> unknowing = open(options);
  ASSERT_TRUE(unknowing->adopt(std::move(read->store().fork()).value(), tokens_).ok());
  for (Session* session : {read.get(), fork->get(), loaded.get(), unknowing.get()})
    ASSERT_TRUE(session->prefill(more).ok());
  EXPECT_EQ(logits_of(*loaded), logits_of(*read));
  EXPECT_EQ(logits_of(**fork), logits_of(*read));
  EXPECT_NE(logits_of(*unknowing), logits_of(*read)) << "the history has no say";
}

TEST_F(PromptCache, WhatGoesOnBesideTheCacheIsCheckedAndBelongsToItsMethod) {
  SessionOptions options = sparse_session(small_options());
  options.kv = policy::find_kv_rule(policy::KvRule::kLatent)->preset;
  const std::unique_ptr<Session> session = open(options);
  ASSERT_TRUE(session->prefill(std::span(tokens_).first(300)).ok());
  const std::string memory = session->memory().value();
  const auto adopts = [&](const SessionOptions& by, const std::string& bytes) {
    return open(by)->adopt(std::move(session->store().fork()).value(), session->tokens(), bytes);
  };
  EXPECT_TRUE(adopts(options, memory).ok());
  for (const size_t bytes : {size_t{1}, size_t{4}, memory.size() / 2, memory.size() - 1}) {
    const Status cut = adopts(options, memory.substr(0, bytes));
    ASSERT_FALSE(cut.ok()) << bytes;
    EXPECT_EQ(cut.error().kind, ErrorKind::kUsage);
  }
  EXPECT_FALSE(adopts(options, memory + "x").ok());
  // Queries that another method does not look for are read over.
  for (const char* other : {"h2o", "tova", "keydiff"}) {
    options.kv = policy::find_kv_rule({other})->preset;
    const Status taken = adopts(options, memory);
    EXPECT_TRUE(taken.ok()) << other << (taken.ok() ? "" : taken.error().message);
  }
  EXPECT_TRUE(adopts({}, memory).ok());
}

}  // namespace
}  // namespace ei
