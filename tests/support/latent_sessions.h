// Sessions that compress their cache while they generate, on the embedded model: for tests of KV compression.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "support/embedded_engine.h"

namespace ei {

inline const Engine& one_thread_engine() {
  static const std::unique_ptr<Engine> loaded = [] {
    EngineOptions options;
    options.backend_options.threads = 1;  // thousands of tiny steps: two threads would mostly wait for each other
    return load_embedded(options);
  }();
  return *loaded;
}

inline policy::KvOptions latent(int32_t budget, int32_t gap, int32_t repeat) {
  return {.rule = policy::KvRule::kLatent, .budget = budget, .gap = gap, .window = 32, .repeat = repeat};
}

inline std::unique_ptr<Session> latent_session(const policy::KvOptions& kv, const CancelToken* cancel = nullptr) {
  SessionOptions options;
  options.kv = kv;
  options.cancel = cancel;
  return open_session(one_thread_engine(), options);
}

inline void feed_likeliest(Session& session, int64_t count) {
  for (int64_t i = 0; i < count; ++i) ASSERT_TRUE(session.decode(likeliest(session)).ok());
}

}  // namespace ei
