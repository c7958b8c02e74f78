// The backend that takes every step as libllama does: its logits are libllama's, so the model files are read rightly,
// and what the other backends differ by is the rounding of their kernels (docs/numerics.md).
#include <gtest/gtest.h>

#include <span>

#include "parity/llama_oracle.h"
#include "parity/logits_compare.h"
#include "parity/parity_bounds.h"
#include "parity/parity_models.h"

namespace ei::testing {
namespace {

struct Reading {
  int64_t length = 0;
  int batch = 512;
  bool f32_cache = true;  // or both sides' default, f16
};

void expect_same_logits(const std::string& path, std::span<const Reading> readings) {
  BackendOptions options;
  options.threads = 1;  // the oracle's: some of ggml's kernels round by how the rows are shared out
  const std::unique_ptr<Engine> engine = load_engine(path, "ggml", options);
  ASSERT_NE(engine, nullptr);
  const int64_t vocab = engine->config().vocab;
  const std::unique_ptr<LlamaOracle> oracles[] = {LlamaOracle::load(path, 8192, /*f32_cache=*/false),
                                                  LlamaOracle::load(path, 8192, /*f32_cache=*/true)};
  for (const Reading& reading : readings) {
    LlamaOracle* oracle = oracles[reading.f32_cache ? 1 : 0].get();
    ASSERT_NE(oracle, nullptr);
    const std::vector<int32_t> tokens = random_tokens(reading.length, vocab, 11);
    const std::vector<float> logits =
        our_logits(*engine, tokens, reading.batch, reading.f32_cache ? std::optional(DType::kF32) : std::nullopt);
    const LogitsGap gap = compare_logits(logits, oracle->evaluate(tokens, reading.batch), vocab, kFloatNoise);
    record(str_format("length_%lld_batch_%d_%s", static_cast<long long>(reading.length), reading.batch,
                      reading.f32_cache ? "f32" : "f16"),
           gap);
    EXPECT_EQ(gap.rows, reading.length);
    EXPECT_EQ(gap.relative, 0) << "length " << reading.length << " batch " << reading.batch << ", KL divergence "
                               << gap.kl_divergence << (reading.f32_cache ? "" : ", f16 cache");
  }
}

class GgmlBackend : public ::testing::TestWithParam<FamilyCase> {};

TEST_P(GgmlBackend, GivesLibllamasLogits) {
  constexpr Reading kReadings[] = {{511, 100}, {512}, {513}, {513, 512, false}};
  expect_same_logits(RandomModelFile(small_spec(GetParam().family, GetParam().type)).path(), kReadings);
}

// Apart, because an emulated machine can do as much (tools/cross_engine.sh).
TEST_P(GgmlBackend, GivesLibllamasLogitsOfFewTokens) {
  constexpr Reading kReadings[] = {{1}, {2}, {2, 1}, {31}, {31, 7}, {31, 7, false}, {66, 40, false}};
  expect_same_logits(RandomModelFile(small_spec(GetParam().family, GetParam().type)).path(), kReadings);
}

INSTANTIATE_TEST_SUITE_P(Families, GgmlBackend, ::testing::ValuesIn(family_cases(kFamilyTypes)), case_name);

TEST(GgmlBackend, GivesLibllamasLogitsOfTheEmbeddedModel) {
  constexpr Reading kReadings[] = {{1100}, {300, 100, false}};
  expect_same_logits(EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf", kReadings);
}

TEST(GgmlBackend, ScalesProductsAsLibllamaDoes) {
  for (const char* family : {"llama", "qwen3"}) {
    RandomModelSpec spec = small_spec(family, "NVFP4");
    spec.scales = true;
    spec.tied = false;
    SCOPED_TRACE(family);
    constexpr Reading kReadings[] = {{100}};
    expect_same_logits(RandomModelFile(spec).path(), kReadings);
  }
}

TEST(GgmlBackend, TurnsVectorsAsLibllamaDoes) {
  for (const RandomRopeScaling scaling :
       {RandomRopeScaling::kLinear, RandomRopeScaling::kYarn, RandomRopeScaling::kLlama3}) {
    for (const char* family : {"llama", "gemma3"}) {
      if (scaling == RandomRopeScaling::kLlama3 && family != std::string_view("llama")) continue;
      RandomModelSpec spec = small_spec(family, "F32");
      spec.rope_scaling = scaling;
      spec.rope_original_context = 512;
      SCOPED_TRACE(::testing::Message() << family << ", scaling " << static_cast<int>(scaling));
      constexpr Reading kReadings[] = {{600}};
      expect_same_logits(RandomModelFile(spec).path(), kReadings);
    }
  }
}

TEST(DownloadedModel, GivesLibllamasLogitsByItsOwnSteps) {
  for (const char* name : {"SmolLM2-135M-Instruct-Q4_1.gguf", "gemma-3-270m-Q4_K_M.gguf"}) {
    SCOPED_TRACE(name);
    if (!std::filesystem::exists(downloaded(name))) GTEST_SKIP() << "run make models first";
    constexpr Reading kReadings[] = {{600}, {600, 512, false}, {40, 7}};
    expect_same_logits(downloaded(name), kReadings);
  }
}

}  // namespace
}  // namespace ei::testing
