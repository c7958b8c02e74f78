// Generations without an end, on a model of every family: what compresses again and again stays inside budget and
// repeat, in memory that was asked for beforehand.
#include "parity/family_methods.h"

namespace ei::testing {
namespace {

// Does the cache hold no more than was announced? Where slots are shared out unevenly, in the mean over what shares.
void expect_inside(const Session& session, const policy::KvOptions& kv, int64_t most_slots) {
  const model::Config& config = session.engine().config();
  // A share of the text is one of all that was read and generated.
  const int64_t most = policy::make_kv_method(kv, {})->budget_at(session.position()) + kv.repeat;
  const bool layers_share = kv.layers != policy::KvLayers::kFlat;
  const bool heads_share = kv.share != policy::KvShare::kFlat;
  int64_t global_layers = 0;
  int64_t all = 0;
  for (int layer = 0; layer < config.layers; ++layer) {
    const int32_t window = config.per_layer[static_cast<size_t>(layer)].window;
    int64_t of_layer = 0;
    for (int h = 0; h < config.kv_heads; ++h) {
      const int64_t length = session.store().length(layer, h);
      of_layer += length;
      if (window > 0 && session.stats().compressions > 0) {
        ASSERT_LE(length, window + kv.window + kv.repeat) << "behind a sliding window, layer " << layer;
      } else if (!layers_share && !heads_share) {
        ASSERT_LE(length, most) << "layer " << layer;
        ASSERT_LE(length, most_slots);
      }
    }
    if (window > 0) continue;
    if (!layers_share) {
      ASSERT_LE(of_layer, config.kv_heads * most) << "layer " << layer;
    }
    ++global_layers;
    all += of_layer;
  }
  ASSERT_LE(all, global_layers * config.kv_heads * most);
}

class EndlessFamilies : public FamilyMethods {};

// Every KV method, asked to compress again.
TEST_P(EndlessFamilies, EveryMethodStaysInsideBudgetPlusRepeat) {
  constexpr int64_t kSteps = 250;
  for_every_kv([&](SessionOptions options) {
    options.kv->repeat = 16;
    options.kv->rounding = policy::KvRounding::kExact;
    const auto session = open(engine(), options);
    ASSERT_TRUE(session->prefill(prompt(15)).ok());
    const int64_t most = session->most_slots(1, kSteps);
    for (const int32_t token : random_tokens(kSteps, engine().config().vocab, 16)) {
      ASSERT_TRUE(session->decode(token).ok());
      ASSERT_NO_FATAL_FAILURE(expect_inside(*session, *options.kv, most));
    }
    EXPECT_EQ(session->stats().compressions, 1 + kSteps / 16);
  });
}

INSTANTIATE_TEST_SUITE_P(All, EndlessFamilies, ::testing::ValuesIn(model::architecture_names()), family_name);

class EndlessGeneration : public FamilyMethods {};

// 20 000 generated tokens, of every method that compresses again by its preset.
TEST_P(EndlessGeneration, StaysInsideBudgetPlusRepeat) {
  constexpr int64_t kSteps = 20000;
  RandomModelSpec spec = small_spec(std::string(GetParam()), "Q8_0");
  spec.context = kPrompt + kSteps;
  const RandomModelFile file(spec);
  BackendOptions backend;
  backend.threads = 1;
  const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", backend);
  ASSERT_NE(engine, nullptr);
  int repeating = 0;
  for (const policy::KvEntry& entry : policy::kv_rules()) {
    if (entry.preset.rule == policy::KvRule::kKeepAll || entry.preset.repeat == 0) continue;
    SCOPED_TRACE(entry.name);
    ++repeating;
    SessionOptions options;
    options.kv = entry.preset;
    const auto session = open(*engine, options);
    ASSERT_TRUE(session->prefill(random_tokens(kPrompt, engine->config().vocab, 7)).ok());
    const int64_t most = session->most_slots(kPrompt, kSteps);
    for (const int32_t token : random_tokens(kSteps, engine->config().vocab, 8)) {
      ASSERT_TRUE(session->decode(token).ok());
      ASSERT_NO_FATAL_FAILURE(expect_inside(*session, *options.kv, most));
    }
    EXPECT_EQ(session->position(), kPrompt + kSteps);
    EXPECT_GT(session->stats().compressions, 70);
  }
  EXPECT_GE(repeating, 6) << "latent, h2o, tova, knorm, keydiff, streaming";
}

INSTANTIATE_TEST_SUITE_P(All, EndlessGeneration, ::testing::ValuesIn(model::architecture_names()), family_name);

}  // namespace
}  // namespace ei::testing
