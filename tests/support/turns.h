// Conversations of several turns, read sparsely and compressed, on the embedded model; saved and gone on with.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/embedded_engine.h"

namespace ei {

inline constexpr int32_t kBudget = 128;
inline constexpr int32_t kGap = 16;
inline constexpr int32_t kRepeat = 64;

// One provider for any number of rows, so that cuts of a prompt may be compared bit for bit.
inline const Engine& one_provider_engine() {
  static const std::unique_ptr<Engine> loaded = [] {
    EngineOptions options;
    options.backend_options.threads = 1;
    options.backend_options.dense = "ggml";
    return load_embedded(options);
  }();
  return *loaded;
}

inline SessionOptions sparse_and_latent(int64_t batch = 0) {
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
inline std::vector<std::vector<float>> speak(Session& session, int count) {
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
inline constexpr Turn kTurns[] = {{1000, 20}, {300, 90}, {3, 5}, {500, 30}};

// The logits behind every prompt and every generated token of all turns.
inline std::vector<std::vector<float>> converse(Session& session) {
  std::vector<std::vector<float>> all;
  uint64_t seed = 0;
  for (const Turn& turn : kTurns) {
    EXPECT_TRUE(session.prefill(random_tokens(turn.prompt, ++seed)).ok());
    all.push_back(logits_of(session));
    for (std::vector<float>& logits : speak(session, turn.answer)) all.push_back(std::move(logits));
  }
  return all;
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

}  // namespace ei
