#include "parity/parity_models.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/random.h"
#include "model/config.h"

namespace ei::testing {

RandomModelFile::RandomModelFile(const RandomModelSpec& spec)
    : path_(std::filesystem::temp_directory_path() /
            ("ei-parity-" + std::to_string(::getpid()) + "-" + spec.family + "-" + spec.types[0] + ".gguf")) {
  const Status made = make_random_model(spec, path_.string());
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
}

RandomModelFile::~RandomModelFile() { std::filesystem::remove(path_); }

RandomModelSpec small_spec(const std::string& family, const std::string& type) {
  RandomModelSpec spec;
  spec.family = family;
  spec.types = {type};
  spec.layers = family == "gemma3" ? 3 : 2;
  if (type == "BF16") {  // ggml has no fast product for it on some CPUs
    spec.width = 128;
    spec.heads = 2;
    spec.kv_heads = 1;
    spec.ffn = 256;
  }
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

std::string downloaded(const std::string& name) {
  const char* folder = std::getenv("EI_MODELS_DIR");
  return std::string(folder != nullptr ? folder : EI_SOURCE_DIR "/models") + "/" + name;
}

void PrintTo(const FamilyCase& test, std::ostream* out) { *out << test.family << " " << test.type; }

std::vector<FamilyCase> family_cases(std::span<const char* const> types) {
  std::vector<FamilyCase> all;
  for (const std::string_view family : model::architecture_names()) {
    for (const char* type : types) all.push_back({std::string(family), type});
  }
  return all;
}

std::string case_name(const ::testing::TestParamInfo<FamilyCase>& test) {
  std::string name = test.param.family + "_" + test.param.type;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::unique_ptr<Engine> load_engine(const std::string& path, const std::string& backend, BackendOptions options,
                                    gguf::Overrides overrides) {
  EngineOptions all;
  all.model_path = path;
  all.backend = backend;
  all.backend_options = std::move(options);
  all.overrides = std::move(overrides);
  auto engine = Engine::load(all);
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return engine.ok() ? std::move(engine).value() : nullptr;
}

std::vector<float> our_logits(const Engine& engine, std::span<const int32_t> tokens, int64_t batch,
                              std::optional<DType> kv_type) {
  SessionOptions options;
  options.batch = batch;
  options.key_type = kv_type;
  options.value_type = kv_type;
  auto session = engine.new_session(options);
  EXPECT_TRUE(session.ok());
  std::vector<float> logits;
  const Status status = (*session)->evaluate(
      tokens, [&](int64_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); });
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return logits;
}

std::vector<int32_t> our_greedy(const Engine& engine, std::span<const int32_t> tokens, int64_t batch,
                                std::optional<DType> kv_type, int count) {
  SessionOptions options;
  options.batch = batch;
  options.key_type = kv_type;
  options.value_type = kv_type;
  auto session = engine.new_session(options);
  EXPECT_TRUE(session.ok());
  EXPECT_TRUE((*session)->prefill(tokens).ok());
  std::vector<int32_t> generated;
  for (int i = 0; i < count; ++i) {
    const std::span<const float> logits = (*session)->logits();
    generated.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    EXPECT_TRUE((*session)->decode(generated.back()).ok());
  }
  return generated;
}

}  // namespace ei::testing
