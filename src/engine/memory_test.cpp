// The shares of the memory that a prompt may take beside weights and cache.
#include "engine/memory.h"

#include <gtest/gtest.h>

#include "model/model.h"

namespace ei {
namespace {

model::Config shape(int32_t width, int32_t heads, int32_t head_dim, int32_t ffn, int32_t vocab) {
  model::Config config;
  config.width = width;
  config.heads = heads;
  config.kv_heads = 8;
  config.head_dim = head_dim;
  config.ffn_width = ffn;
  config.vocab = vocab;
  return config;
}

model::Config small() { return shape(384, 6, 64, 1024, 4096); }
model::Config llama_1b() { return shape(2048, 32, 64, 8192, 128256); }
model::Config llama_8b() { return shape(4096, 32, 128, 14336, 128256); }

TEST(Memory, WiderModelsReadShorterChunks) {
  EXPECT_EQ(default_chunk(small()), 1024);
  EXPECT_EQ(default_chunk(llama_1b()), 1024);
  EXPECT_EQ(default_chunk(llama_8b()), 512);
  EXPECT_EQ(default_chunk(shape(8192, 64, 128, 28672, 128256)), 512);
}

TEST(Memory, CopiesOfWeightsGetWhatTheActivationsLeave) {
  for (const model::Config& config : {small(), llama_1b(), llama_8b()}) {
    const int64_t copies = with_packed_budget({}, config).packed_budget;
    EXPECT_GE(copies, 0);
    EXPECT_LT(copies + model::activation_bytes(config, default_chunk(config), 1), kBesideBytes);
  }
  EXPECT_GT(with_packed_budget({}, small()).packed_budget, 2 * 14'000'000);
  EXPECT_EQ(with_packed_budget({}, shape(8192, 64, 128, 28672, 128256)).packed_budget, 0);
}

TEST(Memory, WhatTheUserAllowsForCopiesIsKept) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1} << 40}) {
    BackendOptions options;
    options.packed_budget = bytes;
    EXPECT_EQ(with_packed_budget(options, llama_1b()).packed_budget, bytes);
  }
}

}  // namespace
}  // namespace ei
