// The embedded model loaded once, sessions on it, and what tests ask them: for tests that need some real engine.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/engine.h"
#include "engine/session.h"

namespace ei {

// options.model_path is set here.
inline std::unique_ptr<Engine> load_embedded(EngineOptions options) {
  options.model_path = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
  auto result = Engine::load(options);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? std::move(result).value() : nullptr;
}

inline const Engine& embedded_engine() {
  static const std::unique_ptr<Engine> loaded = load_embedded({});
  return *loaded;
}

inline std::unique_ptr<Session> open_session(const Engine& engine, const SessionOptions& options) {
  auto session = engine.new_session(options);
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
  return std::move(session).value();
}

inline std::vector<int32_t> random_tokens(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(10 + random.below(3000)));
  return tokens;
}

inline std::vector<float> logits_of(const Session& session) {
  return {session.logits().begin(), session.logits().end()};
}

inline int32_t likeliest(const Session& session) {
  const auto logits = session.logits();
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Slots of the longest list of any kv_head.
inline int64_t longest(const Session& session) {
  int64_t length = 0;
  for (int layer = 0; layer < session.store().config().layers; ++layer)
    for (int h = 0; h < session.store().config().kv_heads; ++h)
      length = std::max(length, session.store().length(layer, h));
  return length;
}

}  // namespace ei
