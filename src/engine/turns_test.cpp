// Sparse prefill and KV compression together, over several turns: cancelled in the middle, saved and gone on with.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "engine/embedded_engine.h"

namespace ei {
namespace {

constexpr int32_t kBudget = 128;
constexpr int32_t kGap = 16;
constexpr int32_t kRepeat = 64;

// One provider for any number of rows, so that cuts of a prompt may be compared bit for bit.
const Engine& one_provider_engine() {
  static const std::unique_ptr<Engine> loaded = [] {
    EngineOptions options;
    options.backend_options.threads = 1;
    options.backend_options.dense = "ggml";
    return load_embedded(options);
  }();
  return *loaded;
}

SessionOptions both(int64_t batch = 0) {
  SessionOptions options;
  options.method = "entropyinfer";
  options.prefill = policy::find_method("entropyinfer")->prefill;
  options.prefill->segment = 64;
  options.prefill->threshold = 128;
  options.prefill->base_budget = 64;
  options.prefill->last_dense = false;
  options.kv = policy::KvOptions{
      .rule = policy::KvRule::kLatent, .budget = kBudget, .gap = kGap, .window = 32, .repeat = kRepeat};
  options.batch = batch;
  return options;
}

// Feeds `count` tokens of its own choice; the logits behind each.
std::vector<std::vector<float>> speak(Session& session, int count) {
  std::vector<std::vector<float>> all;
  for (int i = 0; i < count; ++i) {
    EXPECT_TRUE(session.decode(likeliest(session)).ok());
    all.push_back(logits_of(session));
  }
  return all;
}

struct Turn {
  int64_t prompt;
  int answer;
};
constexpr Turn kTurns[] = {{1000, 20}, {300, 90}, {3, 5}, {500, 30}};

// The logits behind every prompt and every generated token of all turns.
std::vector<std::vector<float>> converse(Session& session) {
  std::vector<std::vector<float>> all;
  uint64_t seed = 0;
  for (const Turn& turn : kTurns) {
    EXPECT_TRUE(session.prefill(random_tokens(turn.prompt, ++seed)).ok());
    all.push_back(logits_of(session));
    for (std::vector<float>& logits : speak(session, turn.answer)) all.push_back(std::move(logits));
  }
  return all;
}

TEST(Turns, EqualDenseOnesBitForBitWhenTheBudgetOfThePromptCoversEverything) {
  SessionOptions covering = both();
  covering.prefill->threshold = 0;
  covering.prefill->layer_skip = 0;
  covering.prefill->base_budget = 4096;
  SessionOptions dense = both();
  dense.prefill = policy::PrefillOptions{};
  const auto session = open_session(one_provider_engine(), covering);
  EXPECT_EQ(converse(*session), converse(*open_session(one_provider_engine(), dense)));
  EXPECT_EQ(session->stats().compressions, 4);
}

TEST(Turns, StayInsideTheBudgetHoweverTheirPromptsAreCut) {
  const auto session = open_session(one_provider_engine(), both(4096));
  const std::vector<std::vector<float>> whole = converse(*session);
  EXPECT_LE(longest(*session), kBudget + kRepeat);
  EXPECT_FALSE(session->store().exact());
  EXPECT_EQ(session->stats().compressions, 4);  // once in the first turn, twice in the second, once in the last
  EXPECT_LT(session->stats().density(), 0.9);
  EXPECT_EQ(session->planner()->held_bytes(), 0);
  for (const int64_t batch : {64, 100})
    EXPECT_EQ(converse(*open_session(one_provider_engine(), both(batch))), whole) << "batch " << batch;
}

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
  const auto smooth = open_session(one_provider_engine(), both(64));
  SessionOptions options = both(64);
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
  SessionOptions options = both(64);
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
    SessionOptions keep = both(64);
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

class SavedTurns : public testing::Test {
 protected:
  ~SavedTurns() override { unlink(path_.c_str()); }

  void save(const Session& session) const {
    ASSERT_TRUE(session.store().save(path_, one_provider_engine().model_hash()).ok());
  }
  void load_into(Session& session) const {
    auto loaded = kv::Store::load(path_, one_provider_engine().model_hash(), one_provider_engine().backend());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const Status adopted = session.adopt(std::move(loaded).value());
    ASSERT_TRUE(adopted.ok()) << adopted.error().message;
  }

  const std::string path_ = testing::TempDir() + "turns_" + std::to_string(getpid()) + ".kv";
};

TEST_F(SavedTurns, ACompressedCacheGoesOnAsAPromptJustRead) {
  const auto session = open_session(one_provider_engine(), both());
  ASSERT_TRUE(session->prefill(random_tokens(1000, 1)).ok());
  speak(*session, 20);
  ASSERT_EQ(session->stats().compressions, 1);
  save(*session);
  const auto other = open_session(one_provider_engine(), both());
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
  const auto session = open_session(one_provider_engine(), both());
  ASSERT_TRUE(session->prefill(random_tokens(1000, 1)).ok());
  speak(*session, kGap - 1);
  ASSERT_EQ(session->stats().compressions, 0);
  save(*session);
  const auto other = open_session(one_provider_engine(), both());
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

TEST_F(SavedTurns, AWholeCacheIsReadOnSparselyFromKeysAlone) {
  const auto session = open_session(one_provider_engine(), both());
  ASSERT_TRUE(session->prefill(random_tokens(1024, 1)).ok());
  save(*session);
  const auto fresh = open_session(one_provider_engine(), both());
  load_into(*fresh);
  ASSERT_TRUE(fresh->store().exact());
  ASSERT_TRUE(fresh->prefill(random_tokens(512, 2)).ok());
  EXPECT_LT(fresh->stats().density(), 0.9);
  EXPECT_GT(fresh->planner()->held_bytes(), 0);
  // A session that has read something else forgets it: the same logits bit for bit.
  const auto used = open_session(one_provider_engine(), both(100));
  converse(*used);
  load_into(*used);
  EXPECT_EQ(used->planner()->held_bytes(), 0);
  ASSERT_TRUE(used->prefill(random_tokens(512, 2)).ok());
  EXPECT_EQ(logits_of(*used), logits_of(*fresh));
  EXPECT_EQ(speak(*used, 30), speak(*fresh, 30));
}

TEST_F(SavedTurns, ACacheOfOtherTypesOrTooLongIsRefusedAndChangesNothing) {
  const auto session = open_session(one_provider_engine(), both());
  ASSERT_TRUE(session->prefill(random_tokens(200, 1)).ok());
  save(*session);
  SessionOptions wide = both();
  wide.key_type = wide.value_type = DType::kF32;
  SessionOptions narrow = both();
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
