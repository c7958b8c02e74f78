// Sparse prefill on every family: sliding windows, QK norms, biases, groups of any size.
#include <ggml.h>
#include <gguf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "engine/session.h"
#include "model/config.h"
#include "parity/parity_models.h"
#include "policy/registry.h"

namespace ei::testing {
namespace {

policy::PrefillOptions small_options() {
  policy::PrefillOptions options = policy::find_method("entropyinfer")->prefill;
  options.segment = 64;
  options.threshold = 128;
  options.base_budget = 64;
  return options;
}

std::vector<float> read(const Engine& engine, const policy::PrefillOptions* prefill, const std::vector<int32_t>& tokens,
                        int64_t batch) {
  SessionOptions options;
  options.kv = policy::KvOptions{};
  options.batch = batch;
  if (prefill != nullptr) {
    options.method = "entropyinfer";
    options.prefill = *prefill;
  }
  auto made = engine.new_session(options);
  EXPECT_TRUE(made.ok());
  const std::unique_ptr<Session> session = std::move(made).value();
  EXPECT_TRUE(session->prefill(tokens).ok());
  for (int layer = 0; prefill != nullptr && layer < engine.config().layers; ++layer)
    EXPECT_EQ(session->planner()->plans(layer), engine.config().per_layer[static_cast<size_t>(layer)].window == 0)
        << "layer " << layer;
  return {session->logits().begin(), session->logits().end()};
}

class SparseFamilies : public ::testing::TestWithParam<std::string_view> {};

TEST_P(SparseFamilies, CoveringBudgetsEqualDenseAndSmallOnesDoNotDependOnTheCut) {
  RandomModelSpec spec = small_spec(std::string(GetParam()), "Q8_0");
  spec.layers *= 2;  // of the last layer only the last rows attend, and they read everything
  const RandomModelFile file(spec);
  BackendOptions backend;
  backend.dense = "ggml";
  const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", backend);
  ASSERT_NE(engine, nullptr);
  const std::vector<int32_t> tokens = random_tokens(1100, engine->config().vocab, 7);
  const std::vector<float> dense = read(*engine, nullptr, tokens, 0);
  policy::PrefillOptions covering = small_options();
  covering.threshold = 0;
  covering.layer_skip = 0;
  covering.base_budget = 4096;
  EXPECT_EQ(read(*engine, &covering, tokens, 0), dense);
  const policy::PrefillOptions small = small_options();
  const std::vector<float> whole = read(*engine, &small, tokens, 4096);
  EXPECT_NE(whole, dense) << "nothing was left out";
  EXPECT_EQ(read(*engine, &small, tokens, 100), whole);
}

INSTANTIATE_TEST_SUITE_P(All, SparseFamilies, ::testing::ValuesIn(model::architecture_names()), [](const auto& test) {
  std::string name(test.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(LatentCache, HoldsTwentyThousandGeneratedTokensInsideBudgetPlusRepeat) {
  constexpr int64_t kPrompt = 300;
  constexpr int64_t kSteps = 20000;
  RandomModelSpec spec = small_spec("llama", "Q8_0");
  spec.context = kPrompt + kSteps;
  const RandomModelFile file(spec);
  BackendOptions backend;
  backend.threads = 1;
  const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", backend);
  ASSERT_NE(engine, nullptr);
  SessionOptions options;
  options.method = "entropyinfer";
  options.kv = policy::find_method("entropyinfer")->kv;
  auto made = engine->new_session(options);
  ASSERT_TRUE(made.ok());
  Session& session = **made;
  ASSERT_TRUE(session.prefill(random_tokens(kPrompt, engine->config().vocab, 7)).ok());
  const auto method = policy::make_kv_method(*options.kv, {});
  for (const int32_t token : random_tokens(kSteps, engine->config().vocab, 8)) {
    ASSERT_TRUE(session.decode(token).ok());
    const int64_t most = method->budget_at(session.position()) + options.kv->repeat;
    for (int layer = 0; layer < engine->config().layers; ++layer)
      for (int h = 0; h < engine->config().kv_heads; ++h) ASSERT_LE(session.store().length(layer, h), most);
  }
  EXPECT_EQ(session.position(), kPrompt + kSteps);
  EXPECT_GT(session.stats().compressions, 70);
}

// A model with one more tensor, of one number.
void expect_refusal(const char* family, const char* name) {
  SCOPED_TRACE(::testing::Message() << family << " " << name);
  const RandomModelFile file(small_spec(family, "F32"));
  ggml_context* tensors = nullptr;
  gguf_context* from = gguf_init_from_file(file.path().c_str(), {.no_alloc = false, .ctx = &tensors});
  ASSERT_NE(from, nullptr);
  gguf_context* to = gguf_init_empty();
  gguf_set_kv(to, from);
  for (int64_t i = 0; i < gguf_get_n_tensors(from); ++i)
    gguf_add_tensor(to, ggml_get_tensor(tensors, gguf_get_tensor_name(from, i)));
  ggml_context* more = ggml_init({.mem_size = 1 << 16, .mem_buffer = nullptr, .no_alloc = false});
  ggml_tensor* added = ggml_new_tensor_1d(more, GGML_TYPE_F32, 1);
  ggml_set_name(added, name);
  *static_cast<float*>(added->data) = 2;
  gguf_add_tensor(to, added);
  const std::string path = file.path() + ".more";
  EXPECT_TRUE(gguf_write_to_file(to, path.c_str(), /*only_meta=*/false));
  ggml_free(more);
  ggml_free(tensors);
  gguf_free(from);
  gguf_free(to);
  EngineOptions options;
  options.model_path = path;
  const auto loaded = Engine::load(options);
  std::filesystem::remove(path);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kModel);
  EXPECT_NE(loaded.error().message.find(name), std::string::npos) << loaded.error().message;
}

TEST(Weights, RefusesTensorsThatNothingUses) {
  expect_refusal("llama", "blk.0.attn_gate.weight");
  expect_refusal("llama", "blk.0.ffn_norm.scale");
  expect_refusal("llama", "output.scale");  // of weights in NVFP4 only
  expect_refusal("gemma3", "blk.0.attn_q.scale");
  expect_refusal("qwen2", "rope_freqs.weight");
}

}  // namespace
}  // namespace ei::testing
