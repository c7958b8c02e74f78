// Sessions that read sparsely in small segments, on the embedded model: for tests of a sparse prefill.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "support/embedded_engine.h"

namespace ei {

// One provider for any number of rows, so that cuts of a prompt may be compared bit for bit.
inline std::unique_ptr<Engine> load_dense(const std::string& backend, const std::string& dense = "ggml") {
  EngineOptions options;
  options.backend = backend;
  options.backend_options.dense = dense;
  return load_embedded(options);
}

inline const Engine& ggml_engine() {
  static const std::unique_ptr<Engine> loaded = load_dense("cpu");
  return *loaded;
}

// Small segments, so that short prompts have many of them.
inline policy::PrefillOptions small_options() {
  policy::PrefillOptions options = policy::find_method("entropyinfer")->prefill;
  options.segment = 64;
  options.block = 8;
  options.threshold = 128;
  options.base_budget = 64;
  return options;
}

// Entropies are sampled while blocks are ranked by adaptive; others go with the published budgets.
inline void rank_by(policy::BlockRank rank, policy::PrefillOptions& options) {
  options.select = rank;
  if (rank != policy::BlockRank::kAdaptive) options.rule = policy::PrefillRule::kGrowth;
}

inline SessionOptions sparse_session(const policy::PrefillOptions& prefill, int64_t batch = 0) {
  SessionOptions options;
  options.method = "entropyinfer";
  options.prefill = prefill;
  options.kv = policy::KvOptions{};
  options.batch = batch;
  return options;
}

inline std::vector<float> logits_behind(const SessionOptions& options, const std::vector<int32_t>& tokens,
                                        const Engine& on = ggml_engine()) {
  const std::unique_ptr<Session> session = open_session(on, options);
  EXPECT_TRUE(session->prefill(tokens).ok());
  return logits_of(*session);
}

// Root mean square of the difference, in that of `want`.
inline double distance(const std::vector<float>& have, const std::vector<float>& want) {
  EXPECT_EQ(have.size(), want.size());
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(have[i] - want[i]), 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(difference / size);
}

}  // namespace ei
