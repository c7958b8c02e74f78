// Every weight type of the format, and many in one file, through our engine and through libllama.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/memory.h"
#include "gguf/tensor_type.h"
#include "parity/llama_oracle.h"
#include "parity/logits_compare.h"
#include "parity/parity_bounds.h"
#include "parity/parity_models.h"

namespace ei::testing {
namespace {

constexpr int64_t kTokens = 32;

// libllama rounds activations to eight bits; so far is it from exact arithmetic, and what is exact from it.
constexpr double kEightBits = 8e-3;  // measured up to 4.8e-3

std::vector<std::string> all_types() {
  std::vector<std::string> names;
  for (const gguf::TensorType& type : gguf::tensor_types())
    if (type.loadable) names.emplace_back(type.name);
  return names;
}

// Those that not every family is tested with.
std::vector<std::string> rare_types() {
  std::vector<std::string> names = all_types();
  for (const char* type : kFamilyTypes) std::erase(names, type);
  return names;
}

// `same_products`: the bound where both sides multiply as ggml does.
void expect_parity(const RandomModelSpec& spec, double same_products) {
  const RandomModelFile file(spec);
  const std::unique_ptr<LlamaOracle> oracle = LlamaOracle::load(file.path(), 512, /*f32_cache=*/true);
  ASSERT_NE(oracle, nullptr);
  const std::unique_ptr<Engine> reference = load_engine(file.path(), "reference", {});
  ASSERT_NE(reference, nullptr);
  const int64_t vocab = reference->config().vocab;
  const std::vector<int32_t> tokens = random_tokens(kTokens, vocab, 17);
  const std::vector<float> expected = oracle->evaluate(tokens);
  const std::vector<float> exact = our_logits(*reference, tokens, 0, DType::kF32);
  for (const char* dense : {"ggml", ""}) {
    SCOPED_TRACE(::testing::Message() << "dense maths '" << dense << "'");
    BackendOptions options;
    options.dense = dense;
    const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", options);
    ASSERT_NE(engine, nullptr);
    const std::vector<float> logits = our_logits(*engine, tokens, 0, DType::kF32);
    const bool own = *dense == '\0';
    const LogitsGap gap = compare_logits(logits, expected, vocab, kQuantisedNoise);
    const LogitsGap rounding = compare_logits(logits, exact, vocab, kQuantisedNoise);
    record(own ? "default" : "ggml", gap);
    record(own ? "default_exact" : "ggml_exact", rounding);
    const bool provider =
        backend_detail(engine->file(), engine->backend(), DType::kF32, DType::kF32).find(" for prompts") !=
        std::string::npos;
    EXPECT_LE(gap.kl_divergence, provider ? kEightBits : same_products);
    EXPECT_LE(rounding.kl_divergence, provider ? kWorstDivergence : kEightBits);
    EXPECT_EQ(gap.top_differs + rounding.top_differs, 0);
    EXPECT_GT(gap.judged, kTokens / 4);
  }
}

class WeightTypes : public ::testing::TestWithParam<std::string> {};

TEST_P(WeightTypes, MatchLibllama) { expect_parity(small_spec("llama", GetParam()), kWorstDivergence); }

INSTANTIATE_TEST_SUITE_P(Rare, WeightTypes, ::testing::ValuesIn(rare_types()),
                         [](const auto& test) { return test.param; });

TEST(ScaledWeights, MatchLibllama) {
  for (const char* family : {"llama", "qwen3"}) {
    for (const char* type : {"NVFP4", "Q8_0"}) {
      SCOPED_TRACE(::testing::Message() << family << " " << type);
      RandomModelSpec spec = small_spec(family, type);
      spec.scales = true;
      spec.tied = false;
      expect_parity(spec, kWorstDivergence);
    }
  }
}

TEST(MixedWeightTypes, MatchLibllama) {
  RandomModelSpec spec = small_spec("llama", "F32");
  spec.types = all_types();
  spec.layers = 4;  // 29 matrices: every type comes up, and Q, K and V of a layer differ
  ASSERT_LE(std::ssize(spec.types), 1 + 7 * spec.layers);
  expect_parity(spec, bounds_of("llama", "Q4_K").ggml_short);  // it has weights in Q4_K
}

}  // namespace
}  // namespace ei::testing
