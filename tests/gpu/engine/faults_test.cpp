// Memory of the GPU that runs out anywhere: one clear error, the session goes on where it was, nothing is leaked.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/cuda_memory.h"
#include "gpu/engine/sides.h"
#include "policy/registry.h"
#include "support/embedded_engine.h"

namespace ei::testing {
namespace {

SessionOptions sparse_and_small() {
  SessionOptions options;
  options.batch = 256;
  options.method = "entropyinfer";
  options.prefill = policy::find_method("entropyinfer")->prefill;
  options.prefill->segment = 128;
  options.prefill->threshold = 256;
  options.kv = policy::find_method("entropyinfer")->kv;
  options.kv->keep_slots(256);
  options.kv->gap = 4;
  return options;
}

// Runs `work`, whose allocations fail behind the first `succeeding`. True: one was missed, and `work` said so.
template <typename Work>
bool fails_behind(int64_t succeeding, Work work) {
  fail_allocations(succeeding);
  const Status status = work();
  fail_allocations(-1);
  if (status.ok()) return false;
  EXPECT_EQ(status.error().kind, ErrorKind::kMemory) << status.error().message;
  EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
  return true;
}

struct Faults : ::testing::Test {
  void SetUp() override {
    EI_NEEDS_GPU();
    EngineOptions options;
    options.backend = "cuda";
    engine = load_embedded(options);
    ASSERT_NE(engine, nullptr);
  }
  void TearDown() override { fail_allocations(-1); }
  std::unique_ptr<Engine> engine;
};

TEST_F(Faults, AreOneErrorAndTheSessionGoesOn) {
  const std::vector<int32_t> tokens = ei::random_tokens(1200, 3);
  const auto warm = open_session(*engine, sparse_and_small());
  ASSERT_TRUE(warm->prefill(tokens).ok());
  constexpr int64_t kMost = 2000;
  int64_t failures = 0;
  // Later allocations lie further apart: those of a session come first and are walked one by one.
  for (int64_t n = 0; n < kMost; n += 1 + n / 16) {
    SCOPED_TRACE(n);
    std::unique_ptr<Session> session;
    const bool refused = fails_behind(n, [&]() -> Status {
      EI_ASSIGN_OR_RETURN(session, engine->new_session(sparse_and_small()));
      return {};
    });
    if (refused) {
      ++failures;
      continue;
    }
    if (session == nullptr) session = open_session(*engine, sparse_and_small());
    bool failed = fails_behind(n, [&] { return session->prefill(tokens); });
    if (failed) {
      EXPECT_LE(session->position(), 1200);
      ASSERT_TRUE(session->prefill(std::span(tokens).subspan(static_cast<size_t>(session->position()))).ok());
    }
    ASSERT_EQ(session->position(), 1200);
    failed = fails_behind(n,
                          [&]() -> Status {
                            while (session->position() < 1210) EI_RETURN_IF_ERROR(session->decode(likeliest(*session)));
                            return {};
                          }) ||
             failed;
    while (session->position() < 1212) {
      const Status fed = session->decode(likeliest(*session));
      ASSERT_TRUE(fed.ok()) << fed.error().message;
    }
    EXPECT_GT(session->stats().compressions, 0);
    for (const float logit : session->logits()) ASSERT_TRUE(std::isfinite(logit));
    if (!failed) break;  // there are no more than n anywhere
    ++failures;
    ASSERT_LT(n + 1 + n / 16, kMost);
  }
  EXPECT_GT(failures, 10);
}

// What a call that succeeded left behind is what it leaves with all memory: nothing is skipped without a word.
TEST_F(Faults, LeaveNoLogitsWrong) {
  const std::vector<int32_t> tokens = ei::random_tokens(300, 5);
  const auto logits_of = [](const Session& session) {
    return std::vector<float>(session.logits().begin(), session.logits().end());
  };
  const auto whole = open_session(*engine, {});
  ASSERT_TRUE(whole->prefill(tokens).ok());
  const std::vector<float> behind_prompt = logits_of(*whole);
  ASSERT_TRUE(whole->decode(tokens[0]).ok());
  const std::vector<float> behind_token = logits_of(*whole);
  int read = 0;
  for (int64_t n = 0; n < 80; ++n) {
    SCOPED_TRACE(n);
    const auto session = open_session(*engine, {});
    if (fails_behind(n, [&] { return session->prefill(tokens); })) continue;
    EXPECT_EQ(logits_of(*session), behind_prompt);
    if (fails_behind(n % 4, [&] { return session->decode(tokens[0]); })) continue;
    EXPECT_EQ(logits_of(*session), behind_token);
    ++read;
  }
  EXPECT_GT(read, 0);
}

TEST_F(Faults, LeakNothing) {
  const std::vector<int32_t> tokens = ei::random_tokens(1200, 4);
  const auto once = [&](int64_t succeeding) {
    const auto session = open_session(*engine, sparse_and_small());
    fails_behind(succeeding, [&] { return session->prefill(tokens); });
  };
  once(-1);
  const int64_t before = engine->backend().free_memory();
  for (int64_t n = 0; n < 60; n += 3) once(n);
  EXPECT_GE(engine->backend().free_memory(), before - (int64_t{4} << 20));
}

TEST_F(Faults, OfLoadingAreOneError) {
  int refusals = 0;
  for (int64_t n = 0; n < 100; n += 7) {
    fail_allocations(n);
    EngineOptions options;
    options.backend = "cuda";
    options.model_path = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
    const auto loaded = Engine::load(options);
    fail_allocations(-1);
    if (loaded.ok()) continue;
    EXPECT_EQ(loaded.error().kind, ErrorKind::kMemory) << loaded.error().message;
    EXPECT_EQ(loaded.error().message.find('\n'), std::string::npos) << loaded.error().message;
    ++refusals;
  }
  EXPECT_GT(refusals, 3);  // of 15: every matrix and every vector is an allocation, 48 of them in the layers
}

}  // namespace
}  // namespace ei::testing
