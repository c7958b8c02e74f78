// What must hold for every KV method in a session: the registry is walked on the embedded model.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "policy/registry.h"
#include "support/latent_sessions.h"

namespace ei {
namespace {

constexpr int64_t kPrompt = 300;

SessionOptions session_options(const policy::KvEntry& entry, int32_t budget, const CancelToken* cancel = nullptr) {
  SessionOptions options;
  options.kv = entry.preset;
  options.kv->keep_slots(budget);
  options.kv->window = std::min(options.kv->window, 16);
  options.cancel = cancel;
  return options;
}

std::vector<int64_t> kept_positions(const Session& session) {
  std::vector<int64_t> all;
  for (int layer = 0; layer < session.store().config().layers; ++layer) {
    const KvView view = session.store().view(layer);
    for (const KvHeadView& head : view.heads)
      for (int64_t slot = 0; slot < head.length; ++slot) all.push_back(head.position(slot));
  }
  return all;
}

template <typename Check>
void for_every_method(Check check) {
  for (const policy::KvEntry& entry : policy::kv_rules()) {
    SCOPED_TRACE(entry.name);
    check(entry);
  }
}

TEST(KvMethodsInSessions, ABudgetForEverythingGivesTheLogitsOfFull) {
  const std::vector<int32_t> tokens = random_tokens(kPrompt, 1);
  const auto full = open_session(one_thread_engine(), {});
  ASSERT_TRUE(full->prefill(tokens).ok());
  feed_likeliest(*full, 20);
  for_every_method([&](const policy::KvEntry& entry) {
    const auto session = open_session(one_thread_engine(), session_options(entry, kPrompt + 20));
    ASSERT_TRUE(session->prefill(tokens).ok());
    feed_likeliest(*session, 20);
    EXPECT_EQ(session->stats().compressions, 0);
    EXPECT_EQ(logits_of(*session), logits_of(*full));
  });
}

TEST(KvMethodsInSessions, HoldNoMoreThanMostSlots) {
  const std::vector<int32_t> tokens = random_tokens(kPrompt, 2);
  for_every_method([&](const policy::KvEntry& entry) {
    SessionOptions options = session_options(entry, 64);
    if (options.kv->repeat > 0) options.kv->repeat = 32;
    const auto session = open_session(one_thread_engine(), options);
    ASSERT_TRUE(session->prefill(tokens).ok());
    const int64_t generated = 120;
    const int64_t most = session->most_slots(kPrompt, generated);
    const auto heads = static_cast<double>(session->store().config().layers * session->store().config().kv_heads);
    for (int64_t step = 0; step < generated; ++step) {
      ASSERT_TRUE(session->decode(likeliest(*session)).ok());
      ASSERT_LE(static_cast<double>(session->store().tokens_kept()), heads * static_cast<double>(most));
    }
    const bool keeps_all = entry.preset.rule == policy::KvRule::kKeepAll;
    EXPECT_EQ(session->stats().compressions > 0, !keeps_all);
    EXPECT_EQ(session->store().exact(), keeps_all);
    for (const float logit : session->logits()) ASSERT_TRUE(std::isfinite(logit));
  });
}

TEST(KvMethodsInSessions, DecideByTheTextNotByItsChunks) {
  const std::vector<int32_t> tokens = random_tokens(kPrompt, 3);
  for_every_method([&](const policy::KvEntry& entry) {
    std::vector<std::vector<int64_t>> kept;
    for (const int64_t batch : {kPrompt, int64_t{64}}) {
      SessionOptions options = session_options(entry, 64);
      options.kv->gap = -1;
      options.batch = batch;
      const auto session = open_session(one_thread_engine(), options);
      ASSERT_TRUE(session->prefill(tokens).ok());
      kept.push_back(kept_positions(*session));
    }
    EXPECT_EQ(kept[0], kept[1]);
  });
}

TEST(KvMethodsInSessions, ACancelledCompressionChangesNothingAndIsMadeUpFor) {
  const std::vector<int32_t> tokens = random_tokens(kPrompt, 4);
  for_every_method([&](const policy::KvEntry& entry) {
    if (entry.preset.rule == policy::KvRule::kKeepAll) return;
    CancelToken cancel;
    SessionOptions options = session_options(entry, 64, &cancel);
    options.kv->gap = -1;
    const auto session = open_session(one_thread_engine(), options);
    const Status stopped = session->prefill(tokens, [&](const PrefillProgress& progress) {
      if (progress.done == progress.total) cancel.cancel();
    });
    ASSERT_FALSE(stopped.ok());
    EXPECT_TRUE(session->store().exact());
    cancel.reset();
    ASSERT_TRUE(session->decode(5).ok());
    EXPECT_EQ(session->stats().compressions, 1);
    EXPECT_FALSE(session->store().exact());
  });
}

TEST(KvMethodsInSessions, ASavedCacheGoesOnTheSame) {
  const std::string path = testing::TempDir() + "kv_methods_" + std::to_string(getpid()) + ".kv";
  for_every_method([&](const policy::KvEntry& entry) {
    SessionOptions options = session_options(entry, 64);
    options.kv->gap = -1;
    options.kv->repeat = 0;
    const auto session = open_session(one_thread_engine(), options);
    ASSERT_TRUE(session->prefill(random_tokens(kPrompt, 5)).ok());
    ASSERT_TRUE(session->store().save(path, one_thread_engine().model_hash()).ok());
    auto loaded = kv::Store::load(path, one_thread_engine().model_hash(), one_thread_engine().backend());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const auto other = open_session(one_thread_engine(), options);
    ASSERT_TRUE(other->adopt(std::move(loaded).value()).ok());
    for (int32_t token = 100; token < 110; ++token) {
      ASSERT_TRUE(session->decode(token).ok());
      ASSERT_TRUE(other->decode(token).ok());
    }
    EXPECT_EQ(logits_of(*other), logits_of(*session));
  });
  unlink(path.c_str());
}

}  // namespace
}  // namespace ei
