// Our logits against libllama's, for every family and weight type, over prompt lengths and ways to cut the prompt.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "backend/backend.h"
#include "base/random.h"
#include "engine/engine.h"
#include "model/config.h"
#include "parity/llama_oracle.h"
#include "parity/logits_compare.h"
#include "tools/random_model.h"

namespace ei::testing {
namespace {

constexpr int kLongest = 4097;

struct Case {
  std::string family;
  std::string type;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string_view family : model::architecture_names()) {
    for (const char* type : {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K"}) {
      all.push_back({std::string(family), type});
    }
  }
  return all;
}

// A temporary random model that is gone with the test.
class RandomModelFile {
 public:
  explicit RandomModelFile(const RandomModelSpec& spec)
      : path_(std::filesystem::temp_directory_path() /
              ("ei-parity-" + std::to_string(::getpid()) + "-" + spec.family + "-" + spec.types[0] + ".gguf")) {
    const Status made = make_random_model(spec, path_.string());
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  }
  ~RandomModelFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

RandomModelSpec spec_of(const Case& test) {
  RandomModelSpec spec;
  spec.family = test.family;
  spec.types = {test.type};
  spec.layers = test.family == "gemma3" ? 3 : 2;
  spec.window = 200;
  spec.window_pattern = 3;
  spec.context = 8192;
  spec.seed = 7;
  return spec;
}

std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random.below(vocab)));
  return tokens;
}

std::unique_ptr<Engine> load_engine(const std::string& path, const std::string& backend = "cpu") {
  EngineOptions options;
  options.model_path = path;
  options.backend = backend;
  options.backend_options.threads = 2;
  auto engine = Engine::load(options);
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return engine.ok() ? std::move(engine).value() : nullptr;
}

std::vector<float> our_logits(const Engine& engine, std::span<const int32_t> tokens, int64_t batch,
                              std::optional<DType> kv_type) {
  auto session = engine.new_session({.context = 8192, .batch = batch, .key_type = kv_type, .value_type = kv_type});
  EXPECT_TRUE(session.ok());
  std::vector<float> logits;
  const Status status = (*session)->evaluate(
      tokens, [&](int64_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); });
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return logits;
}

class Parity : public ::testing::TestWithParam<Case> {};

TEST_P(Parity, LogitsMatchLibllamaAtEveryLengthAndCut) {
  const RandomModelFile file(spec_of(GetParam()));
  const bool exact = GetParam().type == "F32";
  const std::unique_ptr<LlamaOracle> oracle = LlamaOracle::load(file.path(), 8192, /*f32_cache=*/exact);
  ASSERT_NE(oracle, nullptr);
  const std::unique_ptr<Engine> engine = load_engine(file.path());
  ASSERT_NE(engine, nullptr);
  const int64_t vocab = engine->config().vocab;
  const std::vector<int32_t> tokens = random_tokens(kLongest, vocab, 11);
  const std::vector<float> expected = oracle->evaluate(tokens);
  const std::optional<DType> kv_type = exact ? std::optional(DType::kF32) : std::nullopt;
  for (const int64_t length : {1, 2, 31, 511, 512, 513, kLongest}) {
    for (const int64_t batch : {int64_t{8192}, int64_t{512}, int64_t{100}}) {
      if (batch == 100 && length != 513) continue;
      if (batch == 512 && length <= 512) continue;
      const auto prompt = std::span(tokens).first(static_cast<size_t>(length));
      const std::vector<float> logits = our_logits(*engine, prompt, batch, kv_type);
      const LogitsGap gap = compare_logits(logits, std::span(expected).first(logits.size()), vocab);
      SCOPED_TRACE(::testing::Message() << GetParam().family << " " << GetParam().type << " length " << length
                                        << " batch " << batch << " relative " << gap.relative << " KL "
                                        << gap.kl_divergence);
      ASSERT_EQ(gap.rows, length);
      if (exact) {
        EXPECT_LE(gap.relative, 1e-4);
      }
      EXPECT_LE(gap.kl_divergence, 1e-3);
      EXPECT_EQ(gap.top_differs, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Parity, ::testing::ValuesIn(cases()), [](const auto& parameter) {
  std::string name = parameter.param.family + "_" + parameter.param.type;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
});

}  // namespace
}  // namespace ei::testing
