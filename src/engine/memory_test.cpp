// The shares of the memory that a prompt may take beside weights and cache.
#include "engine/memory.h"

#include <gtest/gtest.h>

#include "base/clock.h"

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

model::Config llama_70b() { return shape(8192, 64, 128, 28672, 128256); }

TEST(Memory, WiderModelsReadShorterChunks) {
  EXPECT_EQ(default_chunk(small()), 1024);
  EXPECT_EQ(default_chunk(llama_1b()), 1024);
  EXPECT_EQ(default_chunk(llama_8b()), 512);
  EXPECT_EQ(default_chunk(llama_70b()), 256);
}

TEST(Memory, ChunksOfWellKnownShapesFit) {
  const model::Config shapes[] = {small(),
                                  llama_1b(),
                                  llama_8b(),
                                  llama_70b(),
                                  shape(3584, 28, 128, 18944, 152064),   // Qwen2.5-7B
                                  shape(5120, 40, 128, 13824, 152064),   // Qwen2.5-14B
                                  shape(5120, 40, 128, 27648, 152064),   // Qwen2.5-32B
                                  shape(3840, 16, 256, 15360, 262208),   // Gemma 3 12B
                                  shape(5376, 32, 128, 21504, 262208)};  // Gemma 3 27B
  for (const model::Config& config : shapes) EXPECT_LE(beside_need(config), kBesideBytes) << config.width;
}

TEST(Memory, CopiesOfWeightsGetWhatIsLeftAndWhatTheUserAllows) {
  const Result<gguf::File> file = gguf::File::open(EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf");
  ASSERT_TRUE(file.ok());
  const auto copies = [&](const model::Config& config, int64_t wanted) {
    BackendOptions options;
    options.packed_budget = wanted;
    return with_packed_budget(options, config, *file).packed_budget;
  };
  EXPECT_EQ(copies(llama_1b(), -1), kBesideBytes - beside_need(llama_1b()));
  EXPECT_GT(copies(small(), -1), 2 * 14'000'000);
  EXPECT_EQ(copies(llama_1b(), 0), 0);
  EXPECT_EQ(copies(llama_1b(), 1 << 20), 1 << 20);
  EXPECT_LT(copies(llama_1b(), int64_t{1} << 50), available_memory_bytes());
}

}  // namespace
}  // namespace ei
