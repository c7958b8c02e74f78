// Random models must be whole in the eyes of both readers: our own validator and libllama.
#include "tools/random_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"
#include "gguf/file.h"
#include "gguf/hyperparameters.h"
#include "llama.h"
#include "tools/random_tensor.h"

namespace ei {
namespace {

class RandomModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    ggml_backend_load_all();
  }
  void TearDown() override { std::remove(path_.c_str()); }

  // The logits of the last of a few tokens must be finite numbers, not all equal.
  static void expect_sane_logits(llama_model* model) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 64;
    params.n_threads = 1;
    params.n_threads_batch = 1;
    const std::unique_ptr<llama_context, void (*)(llama_context*)> context(llama_init_from_model(model, params),
                                                                           llama_free);
    ASSERT_NE(context, nullptr);
    llama_token tokens[] = {276, 40, 41, 42, 300, 41};
    ASSERT_EQ(llama_decode(context.get(), llama_batch_get_one(tokens, 6)), 0);
    const float* logits = llama_get_logits_ith(context.get(), -1);
    double sum = 0.0;
    double squares = 0.0;
    const int count = llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(std::isfinite(logits[i]));
      sum += logits[i];
      squares += static_cast<double>(logits[i]) * logits[i];
    }
    const double deviation = std::sqrt(squares / count - (sum / count) * (sum / count));
    EXPECT_GT(deviation, 0.1);
    EXPECT_LT(deviation, 50.0);
  }

  void expect_loads(const RandomModelSpec& spec) {
    const Status made = make_random_model(spec, path_);
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto file = gguf::File::open(path_);
    ASSERT_TRUE(file.ok()) << file.error().message;
    const std::unique_ptr<llama_model, void (*)(llama_model*)> model(
        llama_model_load_from_file(path_.c_str(), llama_model_default_params()), llama_model_free);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(llama_vocab_n_tokens(llama_model_get_vocab(model.get())), spec.vocab);
    expect_sane_logits(model.get());
  }

  std::string path_ = testing::TempDir() + "ei_random_model_" + std::to_string(::getpid()) + ".gguf";
};

TEST_F(RandomModel, OfEveryFamilyAndTypeLoadsInLibllama) {
  for (const std::string_view family : gguf::supported_architectures()) {
    for (const char* type : {"F32", "Q8_0", "Q4_K"}) {
      SCOPED_TRACE(std::string(family) + " " + type);
      RandomModelSpec spec;
      spec.family = family;
      spec.types = {type};
      expect_loads(spec);
    }
  }
}

RandomModelSpec smallest_of_type(const gguf::TensorType& type) {
  RandomModelSpec spec;
  spec.layers = 1;
  spec.vocab = 304;
  spec.ffn = 256;
  spec.kv_heads = 1;
  spec.types = {std::string(type.name)};
  return spec;
}

TEST_F(RandomModel, OfEveryWeightTypeLoadsInLibllama) {
  for (const gguf::TensorType& type : gguf::tensor_types()) {
    if (!type.loadable) continue;
    SCOPED_TRACE(std::string(type.name));
    expect_loads(smallest_of_type(type));
  }
}

// Whatever the type, weights have the spread that was asked for.
TEST_F(RandomModel, OfEveryWeightTypeHasTheSameSpread) {
  for (const gguf::TensorType& type : gguf::tensor_types()) {
    if (!type.loadable || type.name == "F32") continue;
    const RandomTensor tensor{.type = &type, .cols = 256, .rows = 64, .spread = 0.125, .fixed = {}};
    std::string bytes;
    ASSERT_TRUE(write_random_tensor(tensor, 3, 1, [&](const void* data, size_t size) {
      bytes.append(static_cast<const char*>(data), size);
      return true;
    }));
    std::vector<float> values(256 * 64);
    ggml_get_type_traits(static_cast<ggml_type>(type.id))->to_float(bytes.data(), values.data(), std::ssize(values));
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
    // Types of one or two bits cannot keep the tails.
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), 0.125, 0.03) << type.name;
  }
}

TEST_F(RandomModel, WithEveryRopeScalingAndVariationLoads) {
  RandomModelSpec spec;
  spec.tied = false;
  spec.qkv_bias = true;
  spec.types = {"F16", "Q8_0", "Q6_K", "BF16"};
  for (const auto scaling : {RandomRopeScaling::kLinear, RandomRopeScaling::kYarn, RandomRopeScaling::kLlama3}) {
    spec.rope_scaling = scaling;
    expect_loads(spec);
  }
}

TEST_F(RandomModel, IsTheSameForTheSameSeed) {
  std::string first;
  RandomModelSpec spec;
  for (const uint64_t seed : {7u, 7u, 8u}) {
    spec.seed = seed;
    ASSERT_TRUE(make_random_model(spec, path_).ok());
    std::ifstream in(path_, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes == first, seed == 7u);
  }
}

TEST_F(RandomModel, PresetsAreConsistent) {
  for (const std::string_view name : random_model_presets()) {
    SCOPED_TRACE(std::string(name));
    RandomModelSpec spec = random_model_preset(name).value();
    spec.layers = 1;
    spec.vocab = 512;
    spec.ffn = 256;
    spec.types = {"Q4_0"};
    expect_loads(spec);
  }
}

TEST_F(RandomModel, RefusesWhatCannotBeWritten) {
  RandomModelSpec spec;
  spec.width = 320;
  spec.types = {"Q4_K"};
  EXPECT_NE(make_random_model(spec, path_).error().message.find("multiple of 256"), std::string::npos);
  spec = {};
  spec.family = "bert";
  EXPECT_EQ(make_random_model(spec, path_).error().kind, ErrorKind::kUsage);
  spec = {};
  spec.kv_heads = 3;
  EXPECT_EQ(make_random_model(spec, path_).error().kind, ErrorKind::kUsage);
  EXPECT_FALSE(make_random_model({}, "/nonexistent-folder/model.gguf").ok());
}

}  // namespace
}  // namespace ei
