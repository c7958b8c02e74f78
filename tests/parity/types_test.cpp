// Every weight type of the format, and many in one file, through our engine and through libllama.
#include <gtest/gtest.h>

#include "engine/memory.h"
#include "gguf/tensor_type.h"
#include "parity/logits_compare.h"
#include "parity/parity_bounds.h"
#include "parity/parity_models.h"

namespace ei::testing {
namespace {

constexpr int64_t kTokens = 32;

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

void expect_parity(const RandomModelSpec& spec) {
  const RandomModelFile file(spec);
  const std::unique_ptr<Engine> reference = load_engine(file.path(), "reference", {});
  ASSERT_NE(reference, nullptr);
  const int64_t vocab = reference->config().vocab;
  const std::vector<int32_t> tokens = random_tokens(kTokens, vocab, 17);
  const LibllamaReading libllama = read_with_libllama(file.path(), tokens, /*f32_cache=*/true);
  const double noise = noise_of("quantised", libllama.own);
  const std::vector<float> exact = our_logits(*reference, tokens, 0, DType::kF32);
  const LogitsGap theirs = compare_logits(libllama.logits, exact, vocab, noise);
  record("libllama_exact", theirs);
  for (const char* dense : {"ggml", ""}) {
    SCOPED_TRACE(::testing::Message() << "dense maths '" << dense << "'");
    BackendOptions options;
    options.dense = dense;
    const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", options);
    ASSERT_NE(engine, nullptr);
    const std::vector<float> logits = our_logits(*engine, tokens, 0, DType::kF32);
    const bool own = *dense == '\0';
    const LogitsGap gap = compare_logits(logits, libllama.logits, vocab, noise);
    const LogitsGap rounding = compare_logits(logits, exact, vocab, noise);
    record(own ? "default" : "ggml", gap);
    record(own ? "default_exact" : "ggml_exact", rounding);
    const bool provider =
        backend_detail(engine->file(), engine->backend(), DType::kF32, DType::kF32).find(" for prompts") !=
        std::string::npos;
    Rounding kind = provider ? Rounding::kBf16 : Rounding::kAsLibllama;
    if (multiplies_blocks(*engine)) kind = Rounding::kBlocks;
    expect_within(gap, allowed(libllama.own, kind, provider ? kTimesItsMeanByDefault : kTimesItsMean));
    // No further from exact arithmetic than bf16 takes it, or libllama is with the same products.
    expect_within(rounding, allowed_from_exact(theirs, kind));
    EXPECT_GT(gap.judged, kTokens / 4);
  }
}

class WeightTypes : public ::testing::TestWithParam<std::string> {};

TEST_P(WeightTypes, MatchLibllama) { expect_parity(small_spec("llama", GetParam())); }

INSTANTIATE_TEST_SUITE_P(Rare, WeightTypes, ::testing::ValuesIn(rare_types()),
                         [](const auto& test) { return test.param; });

TEST(ScaledWeights, MatchLibllama) {
  for (const char* family : {"llama", "qwen3"}) {
    for (const char* type : {"NVFP4", "Q8_0"}) {
      SCOPED_TRACE(::testing::Message() << family << " " << type);
      RandomModelSpec spec = small_spec(family, type);
      spec.scales = true;
      spec.tied = false;
      expect_parity(spec);
    }
  }
}

TEST(MixedWeightTypes, MatchLibllama) {
  RandomModelSpec spec = small_spec("llama", "F32");
  spec.types = all_types();
  spec.layers = 4;  // 29 matrices: every type comes up, and Q, K and V of a layer differ
  ASSERT_LE(std::ssize(spec.types), 1 + 7 * spec.layers);
  expect_parity(spec);
}

}  // namespace
}  // namespace ei::testing
