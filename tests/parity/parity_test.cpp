// Our logits against libllama's, for every family and weight type, over prompt lengths and ways to cut the prompt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <span>

#include "backend/backend.h"
#include "backend/dense_provider.h"
#include "kernels/products/gemm.h"
#include "model/config.h"
#include "parity/llama_oracle.h"
#include "parity/logits_compare.h"
#include "parity/parity_bounds.h"
#include "parity/parity_models.h"

namespace ei::testing {
namespace {

constexpr int64_t kShort = 257;  // the long prompts and cuts_test.cpp go over the edges of chunks of 512
constexpr int64_t kLongest = 4097;

BackendOptions dense_options(std::string_view dense, int64_t packed_budget = -1) {
  BackendOptions options;
  options.dense = dense;
  options.packed_budget = packed_budget;
  return options;
}

// Of the backend that takes every step as libllama does (ggml_backend_test.cpp).
LogitsGap gap_to_libllama_of_its_own_steps(const std::string& path, std::span<const int32_t> tokens,
                                           std::span<const float> expected) {
  BackendOptions options;
  options.threads = 1;
  const std::unique_ptr<Engine> engine = load_engine(path, "ggml", options);
  if (engine == nullptr) return {.relative = 1};
  const LogitsGap gap =
      compare_logits(our_logits(*engine, tokens, 512, DType::kF32), expected, engine->config().vocab, kFloatNoise);
  record("libllamas_own_steps", gap);
  return gap;
}

// With an f32 cache on both sides and ggml's products only last bits of floats differ (docs/numerics.md). Quantised
// weights make even that visible, in libllama's own logits too: their products round the activations, and a rounding
// that falls the other way moves the logits of this and of every later position.
void expect_parity_over(const FamilyCase& test, int64_t length) {
  const RandomModelFile file(small_spec(test.family, test.type));
  const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", dense_options("ggml"));
  ASSERT_NE(engine, nullptr);
  const int64_t vocab = engine->config().vocab;
  const std::vector<int32_t> tokens = random_tokens(length, vocab, 11);
  const LibllamaReading libllama = read_with_libllama(file.path(), tokens, /*f32_cache=*/true);
  if (length > kShort) {
    EXPECT_EQ(gap_to_libllama_of_its_own_steps(file.path(), tokens, libllama.logits).relative, 0);
  }
  const std::vector<float> logits = our_logits(*engine, tokens, kLongest, DType::kF32);
  const LogitsGap gap = compare_logits(logits, libllama.logits, vocab, noise_of(test.type, libllama.own));
  record("ours", gap);
  ASSERT_EQ(gap.rows, length);
  if (test.type == "F32") {
    EXPECT_LE(gap.relative, kWorstRelative);
  }
  expect_within(gap, allowed(libllama.own, Rounding::kAsLibllama, kTimesItsMean));
  EXPECT_GT(gap.judged, length / 4);
  // Shorter prompts and other cuts give the same bits, so that what holds for these rows holds for them.
  const std::pair<int64_t, int64_t> cuts[] = {{1, 512}, {2, 1}, {31, 512}, {31, 7}, {kShort - 1, 100}, {length, 128}};
  for (const auto& [count, batch] : cuts) {
    const std::vector<float> cut =
        our_logits(*engine, std::span(tokens).first(static_cast<size_t>(count)), batch, DType::kF32);
    EXPECT_TRUE(std::equal(cut.begin(), cut.end(), logits.begin())) << "length " << count << " batch " << batch;
  }
}

class Parity : public ::testing::TestWithParam<FamilyCase> {};

TEST_P(Parity, LogitsMatchLibllamaAtEveryLengthAndCut) { expect_parity_over(GetParam(), kShort); }

// As users run it: the provider and the cache of this machine, libllama with its own f16 cache.
TEST_P(Parity, DefaultsStayWithinTheRoundingOfBothSides) {
  const RandomModelFile file(small_spec(GetParam().family, GetParam().type));
  const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", {});
  ASSERT_NE(engine, nullptr);
  const int64_t vocab = engine->config().vocab;
  const std::vector<int32_t> tokens = random_tokens(600, vocab, 12);
  const LibllamaReading libllama = read_with_libllama(file.path(), tokens, /*f32_cache=*/false);
  const double noise = std::max(noise_of(GetParam().type, libllama.own), kHalfNoise);
  const LogitsGap gap = compare_logits(our_logits(*engine, tokens, 0, std::nullopt), libllama.logits, vocab, noise);
  record("by_default", gap);
  Rounding rounding = engine->backend().default_kv_type() == DType::kBF16 ? Rounding::kBf16 : Rounding::kAsLibllama;
  if (multiplies_blocks(*engine)) rounding = Rounding::kBlocks;
  expect_within(gap, allowed(libllama.own, rounding, kTimesItsMeanByDefault));
  EXPECT_GT(gap.judged, gap.rows / 4);
}

INSTANTIATE_TEST_SUITE_P(Families, Parity, ::testing::ValuesIn(family_cases(kFamilyTypes)), case_name);

// Every family and every type, in pairs: a long prompt takes seconds each.
std::vector<FamilyCase> long_cases() {
  return {{"llama", "Q4_K"},  {"qwen2", "F16"},  {"qwen3", "Q8_0"}, {"pangu-embedded", "F32"},
          {"gemma3", "Q4_0"}, {"llama", "Q6_K"}, {"qwen2", "BF16"}};
}

class LongParity : public ::testing::TestWithParam<FamilyCase> {};

// One with global layers alone and one with windows go all the way.
TEST_P(LongParity, LogitsMatchLibllama) {
  const bool longest = GetParam().type == "F32" || GetParam().family == "gemma3";
  expect_parity_over(GetParam(), longest ? kLongest : kLongest / 2 + 1);
}

TEST(LongParity, CoversEveryFamilyAndType) {
  std::set<std::string> seen;
  for (const FamilyCase& test : long_cases()) seen.insert({test.family, test.type});
  for (const std::string_view family : model::architecture_names()) EXPECT_EQ(seen.count(std::string(family)), 1u);
  for (const char* type : kFamilyTypes) EXPECT_EQ(seen.count(type), 1u) << type;
}

INSTANTIATE_TEST_SUITE_P(Families, LongParity, ::testing::ValuesIn(long_cases()), case_name);

// Every backend of the registry, so that a new one cannot be forgotten.
TEST(Backends, AllMatchLibllamaInF32) {
  for (const std::string_view family : model::architecture_names()) {
    const RandomModelFile file(small_spec(std::string(family), "F32"));
    const std::unique_ptr<LlamaOracle> oracle = LlamaOracle::load(file.path(), 512, /*f32_cache=*/true);
    ASSERT_NE(oracle, nullptr);
    for (const BackendEntry& backend : backends()) {
      if (const Status usable = backend.usable(); !usable.ok()) {
        std::printf("left out: %s (%s)\n", std::string(backend.name).c_str(), usable.error().message.c_str());
        continue;
      }
      const std::unique_ptr<Engine> engine = load_engine(file.path(), std::string(backend.name), {});
      ASSERT_NE(engine, nullptr);
      const std::vector<int32_t> tokens = random_tokens(230, engine->config().vocab, 5);
      const LogitsGap gap = compare_logits(our_logits(*engine, tokens, 64, DType::kF32), oracle->evaluate(tokens),
                                           engine->config().vocab, kFloatNoise);
      EXPECT_LE(gap.relative, kWorstRelative) << family << " on " << backend.name;
    }
  }
}

struct RopeCase {
  RandomRopeScaling scaling;
  const char* name;
};

TEST(Rope, ScalingsMatchLibllama) {
  for (const RopeCase& rope :
       {RopeCase{RandomRopeScaling::kNone, "none"}, RopeCase{RandomRopeScaling::kLinear, "linear"},
        RopeCase{RandomRopeScaling::kYarn, "yarn"}, RopeCase{RandomRopeScaling::kLlama3, "llama3"}}) {
    for (const std::string_view family : model::architecture_names()) {
      if (rope.scaling == RandomRopeScaling::kLlama3 && family != "llama") continue;
      RandomModelSpec spec = small_spec(std::string(family), "F32");
      spec.rope_scaling = rope.scaling;
      spec.rope_original_context = 512;
      const RandomModelFile file(spec);
      const std::unique_ptr<LlamaOracle> oracle = LlamaOracle::load(file.path(), 2048, /*f32_cache=*/true);
      ASSERT_NE(oracle, nullptr);
      const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", {});
      ASSERT_NE(engine, nullptr);
      const std::vector<int32_t> tokens = random_tokens(1500, engine->config().vocab, 3);
      const LogitsGap gap = compare_logits(our_logits(*engine, tokens, 512, DType::kF32), oracle->evaluate(tokens),
                                           engine->config().vocab, kFloatNoise);
      EXPECT_LE(gap.relative, kWorstRelative) << family << " rope " << rope.name;
    }
  }
}

// What the --yarn flags put into the metadata means what libllama's parameters of the same names do.
TEST(Rope, ParametersOfYarnMatchLibllama) {
  for (const RandomRopeScaling scaling : {RandomRopeScaling::kYarn, RandomRopeScaling::kLinear}) {
    for (const OracleYarn& yarn : {OracleYarn{.ext_factor = 0.0f, .attn_factor = 1.25f},
                                   OracleYarn{.ext_factor = 0.5f, .beta_fast = 16.0f, .beta_slow = 2.0f}}) {
      RandomModelSpec spec = small_spec("llama", "F32");
      spec.rope_scaling = scaling;
      spec.rope_original_context = 512;
      const RandomModelFile file(spec);
      const std::unique_ptr<LlamaOracle> oracle =
          LlamaOracle::load(file.path(), {.context = 2048, .f32_cache = true, .yarn = yarn});
      ASSERT_NE(oracle, nullptr);
      gguf::Overrides overrides;
      const auto put = [&](const char* name, float value) {
        if (value >= 0) overrides.push_back({std::string("{arch}.rope.scaling.yarn_") + name, double{value}});
      };
      put("ext_factor", yarn.ext_factor);
      put("attn_factor", yarn.attn_factor);
      put("beta_fast", yarn.beta_fast);
      put("beta_slow", yarn.beta_slow);
      const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", {}, overrides);
      ASSERT_NE(engine, nullptr);
      const std::vector<int32_t> tokens = random_tokens(1500, engine->config().vocab, 3);
      const LogitsGap gap = compare_logits(our_logits(*engine, tokens, 512, DType::kF32), oracle->evaluate(tokens),
                                           engine->config().vocab, kFloatNoise);
      EXPECT_LE(gap.relative, kWorstRelative) << "ext factor " << yarn.ext_factor;
    }
  }
}

// The largest Gemma 3 scales its queries in a way of its own, known by its number of layers.
TEST(Rope, GemmaOf62LayersMatchesLibllama) {
  RandomModelSpec spec = small_spec("gemma3", "F32");
  spec.layers = 62;
  spec.width = 96;
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.head_dim = 64;
  spec.ffn = 96;
  const RandomModelFile file(spec);
  const std::unique_ptr<LlamaOracle> oracle = LlamaOracle::load(file.path(), 512, /*f32_cache=*/true);
  ASSERT_NE(oracle, nullptr);
  const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", {});
  ASSERT_NE(engine, nullptr);
  EXPECT_NE(engine->config().attention_scale, 0.125f);
  const std::vector<int32_t> tokens = random_tokens(300, engine->config().vocab, 3);
  const LogitsGap gap = compare_logits(our_logits(*engine, tokens, 512, DType::kF32), oracle->evaluate(tokens),
                                       engine->config().vocab, kFloatNoise);
  // Twenty times the layers of the other models, each with its rounded GELU: 5.8e-4 was seen; 0.31 with the usual
  // scale.
  EXPECT_LE(gap.relative, 2e-3);
}

// The providers of dense maths round inputs to bf16, fp16 or blocks of eight bits, ggml rounds activations to the
// weights' own eight bits. So a provider is held twice: to exact arithmetic on the same weights (the reference
// backend), and to libllama. It runs on packed copies and unpacking per chunk.
struct ProviderKernel {
  DenseEntry entry;
  std::string isa;  // EI_CPU_ISA
};
std::vector<ProviderKernel> provider_kernels() {
  std::vector<ProviderKernel> all;
  for (const DenseEntry& entry : dense_providers()) {
    if (!entry.create("").ok()) continue;
    if (entry.name != "bf16") all.push_back({entry, ""});
    for (const kernels::GemmKernel* kernel : kernels::gemm_kernels())
      if (entry.name == "bf16" && kernel->usable()) all.push_back({entry, std::string(kernel->name)});
  }
  return all;
}
constexpr const char* kProviderTypes[] = {"F16", "BF16", "Q8_0", "Q4_K"};
class DenseMaths : public ::testing::TestWithParam<FamilyCase> {};

TEST_P(DenseMaths, EveryProviderIsExactEnoughAndMatchesLibllama) {
  constexpr int64_t kTokens = 600;
  constexpr int64_t kExactTokens = 100;
  const RandomModelFile file(small_spec(GetParam().family, GetParam().type));
  const std::unique_ptr<Engine> reference = load_engine(file.path(), "reference", {});
  ASSERT_NE(reference, nullptr);
  const int64_t vocab = reference->config().vocab;
  const std::vector<int32_t> tokens = random_tokens(kTokens, vocab, 9);
  const LibllamaReading libllama = read_with_libllama(file.path(), tokens, /*f32_cache=*/true);
  const double noise = noise_of(GetParam().type, libllama.own);
  const std::vector<float> exact = our_logits(*reference, std::span(tokens).first(kExactTokens), 0, DType::kF32);
  const LogitsGap theirs = compare_logits(std::span(libllama.logits).first(exact.size()), exact, vocab, noise);
  for (const auto& [entry, isa] : provider_kernels()) {
    if (!entry.fast("") && GetParam().family != "llama") continue;  // minutes in plain f32
    std::vector<float> packed;
    for (const int64_t budget : {int64_t{-1}, int64_t{0}}) {
      BackendOptions options = dense_options(entry.name, budget);
      options.isa = isa;
      const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", options);
      ASSERT_NE(engine, nullptr);
      const std::vector<float> logits = our_logits(*engine, tokens, kTokens, DType::kF32);
      const LogitsGap rounding = compare_logits(std::span(logits).first(exact.size()), exact, vocab, noise);
      const LogitsGap gap = compare_logits(logits, libllama.logits, vocab, noise);
      const std::string name = std::string(entry.name) + "_" + isa + (budget == 0 ? "_unpacked" : "");
      record(name, gap);
      record(name + "_exact", rounding);
      SCOPED_TRACE(::testing::Message() << entry.name << " " << isa << " budget " << budget);
      const Rounding kind = multiplies_blocks(*engine) ? Rounding::kBlocks : Rounding::kBf16;
      expect_within(rounding, allowed_from_exact(theirs, kind));
      expect_within(gap, allowed(libllama.own, kind, kTimesItsMeanByDefault));
      if (budget != 0) packed = logits;
      if (entry.name == "bf16") {
        EXPECT_TRUE(logits == packed);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DenseMaths, ::testing::ValuesIn(family_cases(kProviderTypes)), case_name);

TEST(Shapes, OddHeadsGroupsAndUntiedOutputsMatchLibllama) {
  struct Shape {
    int64_t heads, kv_heads, head_dim;
    bool tied;
  };
  for (const Shape& shape :
       {Shape{4, 4, 32, false}, Shape{7, 1, 40, true}, Shape{6, 2, 96, false}, Shape{2, 1, 256, true}}) {
    RandomModelSpec spec = small_spec("llama", "F32");
    spec.heads = shape.heads;
    spec.kv_heads = shape.kv_heads;
    spec.head_dim = shape.head_dim;
    spec.tied = shape.tied;
    const RandomModelFile file(spec);
    const std::unique_ptr<LlamaOracle> oracle = LlamaOracle::load(file.path(), 512, /*f32_cache=*/true);
    ASSERT_NE(oracle, nullptr);
    const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", {});
    ASSERT_NE(engine, nullptr);
    const std::vector<int32_t> tokens = random_tokens(300, engine->config().vocab, 4);
    const LogitsGap gap = compare_logits(our_logits(*engine, tokens, 128, DType::kF32), oracle->evaluate(tokens),
                                         engine->config().vocab, kFloatNoise);
    EXPECT_LE(gap.relative, kWorstRelative) << shape.heads << "/" << shape.kv_heads << " x " << shape.head_dim;
  }
}

}  // namespace
}  // namespace ei::testing
