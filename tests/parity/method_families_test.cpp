// Every method on a model of every family: sliding windows, QK norms, biases, groups of any size. The registries are
// walked, so a new method and a new family are tested by being there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "engine/session.h"
#include "model/config.h"
#include "parity/parity_models.h"
#include "policy/registry.h"

namespace ei::testing {
namespace {

constexpr int64_t kPrompt = 420;
constexpr int32_t kBudget = 64;

// A model of each family, twice as deep as other tests want it: of the last layer only the last rows attend.
const Engine& family_engine(std::string_view family) {
  static std::map<std::string_view, std::unique_ptr<Engine>> engines;
  std::unique_ptr<Engine>& engine = engines[family];
  if (engine == nullptr) {
    RandomModelSpec spec = small_spec(std::string(family), "Q8_0");
    spec.layers *= 2;
    const RandomModelFile file(spec);
    BackendOptions backend;
    backend.threads = 1;
    engine = load_engine(file.path(), "cpu", backend);
  }
  return *engine;
}

std::unique_ptr<Session> open(const Engine& engine, const SessionOptions& options) {
  auto made = engine.new_session(options);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return std::move(made).value();
}

std::vector<float> logits_of(const Session& session) { return {session.logits().begin(), session.logits().end()}; }

void feed(Session& session, int count) {
  for (int32_t token = 0; token < count; ++token) ASSERT_TRUE(session.decode(20 + token).ok());
}

std::vector<int32_t> kept_positions(const Session& session) {
  std::vector<int32_t> all;
  for (int layer = 0; layer < session.store().config().layers; ++layer)
    for (const KvHeadView& head : session.store().view(layer).heads)
      for (int64_t slot = 0; slot < head.length; ++slot) all.push_back(head.position(slot));
  return all;
}

class MethodFamilies : public ::testing::TestWithParam<std::string_view> {
 protected:
  const Engine& engine() const { return family_engine(GetParam()); }
  std::vector<int32_t> prompt(uint64_t seed) const { return random_tokens(kPrompt, engine().config().vocab, seed); }
  bool global(int layer) const { return engine().config().per_layer[static_cast<size_t>(layer)].window == 0; }

  // Every KV method but the one that keeps all; small enough to act on the prompt, at its end.
  void for_every_kv(const std::function<void(SessionOptions options)>& check) const {
    for (const policy::KvEntry& entry : policy::kv_rules()) {
      if (entry.preset.rule == policy::KvRule::kKeepAll) continue;
      SCOPED_TRACE(entry.name);
      SessionOptions options;
      options.kv = entry.preset;
      options.kv->budget = kBudget;
      options.kv->window = 16;
      options.kv->gap = -1;
      check(options);
    }
  }

  // Every way to read a prompt in part: the presets, then every budget rule with the standard one's.
  void for_every_prefill(const std::function<void(SessionOptions options)>& check) const {
    std::vector<std::pair<std::string_view, policy::PrefillOptions>> all;
    for (const policy::Method& method : policy::methods())
      if (method.prefill.rule != policy::PrefillRule::kDense) all.emplace_back(method.name, method.prefill);
    for (const policy::PrefillEntry& rule : policy::prefill_rules()) {
      policy::PrefillOptions options = policy::find_method("entropyinfer")->prefill;
      options.rule = {rule.name};
      options.select = rule.select.value_or(options.select);
      all.emplace_back(rule.name, options);
    }
    for (auto& [name, prefill] : all) {
      SCOPED_TRACE(name);
      prefill.segment = 32;
      prefill.block = std::min(prefill.block, 16);
      prefill.threshold = 64;
      prefill.base_budget = 32;
      prefill.cover = 0.2;
      prefill.layer_skip = 0;
      SessionOptions options;
      options.prefill = prefill;
      options.kv = policy::KvOptions{};
      check(options);
    }
  }
};

TEST_P(MethodFamilies, KvBudgetsHoldAndSumWindowsAndSinksStay) {
  for_every_kv([&](SessionOptions options) {
    options.kv->sinks = 4;
    options.kv->rounding = policy::KvRounding::kExact;
    const auto session = open(engine(), options);
    ASSERT_TRUE(session->prefill(prompt(1)).ok());
    ASSERT_EQ(session->stats().compressions, 1);
    int64_t kept = 0;
    int64_t heads = 0;
    for (int layer = 0; layer < engine().config().layers; ++layer) {
      if (!global(layer)) continue;
      for (const KvHeadView& head : session->store().view(layer).heads) {
        kept += head.length;
        ++heads;
        for (int32_t i = 0; i < 4; ++i) ASSERT_EQ(head.position(i), i);
        for (int64_t i = 1; i <= 16; ++i) ASSERT_EQ(head.position(head.length - i), kPrompt - i);
        for (int64_t slot = 1; slot < head.length; ++slot) ASSERT_LT(head.position(slot - 1), head.position(slot));
      }
    }
    EXPECT_EQ(kept, heads * kBudget);
    feed(*session, 3);
    for (const float logit : session->logits()) ASSERT_TRUE(std::isfinite(logit));
  });
}

TEST_P(MethodFamilies, AKvBudgetForEverythingIsFullBitForBit) {
  const auto full = open(engine(), {});
  ASSERT_TRUE(full->prefill(prompt(2)).ok());
  feed(*full, 8);
  for_every_kv([&](SessionOptions options) {
    options.kv->budget = kPrompt + 8;
    const auto session = open(engine(), options);
    ASSERT_TRUE(session->prefill(prompt(2)).ok());
    feed(*session, 8);
    EXPECT_EQ(logits_of(*session), logits_of(*full));
  });
  SessionOptions pages;
  pages.kv = policy::find_method("quest")->kv;
  const auto paged = open(engine(), pages);
  ASSERT_TRUE(paged->prefill(prompt(2)).ok());
  feed(*paged, 8);
  EXPECT_EQ(logits_of(*paged), logits_of(*full));
}

TEST_P(MethodFamilies, KvMethodsDecideByTheTextTheSameEveryTime) {
  for_every_kv([&](SessionOptions options) {
    std::vector<std::vector<int32_t>> kept;
    for (const int64_t batch : {kPrompt, kPrompt, int64_t{96}}) {
      options.batch = batch;
      const auto session = open(engine(), options);
      ASSERT_TRUE(session->prefill(prompt(3)).ok());
      kept.push_back(kept_positions(*session));
    }
    EXPECT_EQ(kept[0], kept[1]);
    EXPECT_EQ(kept[0], kept[2]) << "in chunks";
  });
}

TEST_P(MethodFamilies, ASavedCacheGoesOnTheSame) {
  const std::string path = ::testing::TempDir() + "method_families_" + std::to_string(getpid()) + ".kv";
  for_every_kv([&](SessionOptions options) {
    options.kv->repeat = 0;
    const auto session = open(engine(), options);
    ASSERT_TRUE(session->prefill(prompt(4)).ok());
    ASSERT_TRUE(session->store().save(path, engine().model_hash()).ok());
    auto loaded = kv::Store::load(path, engine().model_hash(), engine().backend());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    const auto other = open(engine(), options);
    ASSERT_TRUE(other->adopt(std::move(loaded).value()).ok());
    feed(*session, 4);
    feed(*other, 4);
    EXPECT_EQ(logits_of(*other), logits_of(*session));
  });
  unlink(path.c_str());
}

TEST_P(MethodFamilies, AnInterruptAtAnyPointLeavesASessionThatGoesOn) {
  for_every_kv([&](SessionOptions options) {
    options.batch = 96;
    const auto whole = open(engine(), options);
    ASSERT_TRUE(whole->prefill(prompt(5)).ok());
    CancelToken cancel;
    options.cancel = &cancel;
    for (const int64_t stop : {int64_t{96}, int64_t{288}, kPrompt}) {
      const auto session = open(engine(), options);
      const std::vector<int32_t> tokens = prompt(5);
      const Status stopped = session->prefill(tokens, [&](const PrefillProgress& progress) {
        if (progress.done >= stop) cancel.cancel();
      });
      EXPECT_FALSE(stopped.ok());
      cancel.reset();
      const auto read = static_cast<size_t>(session->position());
      if (read < tokens.size()) {
        ASSERT_TRUE(session->prefill(std::span(tokens).subspan(read)).ok());
        EXPECT_EQ(kept_positions(*session), kept_positions(*whole)) << "interrupted after " << read;
        EXPECT_EQ(logits_of(*session), logits_of(*whole));
      } else {  // while it compressed: the next token makes up for it
        EXPECT_TRUE(session->store().exact());
        ASSERT_TRUE(session->decode(5).ok());
        EXPECT_EQ(session->stats().compressions, 1);
      }
    }
  });
}

TEST_P(MethodFamilies, PromptsReadNoBlockFromTheFutureAndTheSameInChunks) {
  for_every_prefill([&](SessionOptions options) {
    std::optional<std::vector<float>> first;
    for (const int64_t batch : {kPrompt, kPrompt, int64_t{64}}) {
      options.batch = batch;
      const auto session = open(engine(), options);
      session->planner()->keep_blocks(true);
      ASSERT_TRUE(session->prefill(prompt(6)).ok());
      EXPECT_LT(session->stats().density(), 1.0) << "nothing was left out";
      for (int layer = 0; layer < engine().config().layers; ++layer) {
        EXPECT_EQ(session->planner()->plans(layer), global(layer));
        for (const policy::SegmentRecord& record : session->planner()->records(layer)) {
          const int32_t visible = record.segment * options.prefill->grid().blocks_per_segment();
          for (const policy::HeadRecord& head : record.heads) {
            EXPECT_TRUE(std::is_sorted(head.chosen.begin(), head.chosen.end(), std::less_equal<>()));
            EXPECT_LT(head.chosen.empty() ? -1 : head.chosen.back(), visible);
          }
        }
      }
      const std::vector<float> logits = logits_of(*session);
      if (!first) first = logits;
      EXPECT_EQ(logits, *first) << "batch " << batch;
    }
  });
}

TEST_P(MethodFamilies, APrefillBudgetForEverythingIsFullBitForBit) {
  const auto full = open(engine(), {});
  ASSERT_TRUE(full->prefill(prompt(7)).ok());
  for_every_prefill([&](SessionOptions options) {
    options.prefill->threshold = 0;
    options.prefill->base_budget = 4096;
    options.prefill->min_budget = 4096;
    const auto session = open(engine(), options);
    ASSERT_TRUE(session->prefill(prompt(7)).ok());
    EXPECT_EQ(logits_of(*session), logits_of(*full));
  });
}

// Any way to read with any way to keep.
TEST_P(MethodFamilies, EveryPrefillGoesWithEveryKv) {
  for_every_prefill([&](const SessionOptions& reading) {
    for_every_kv([&](SessionOptions options) {
      options.prefill = reading.prefill;
      const auto session = open(engine(), options);
      ASSERT_TRUE(session->prefill(prompt(8)).ok());
      feed(*session, 2);
      EXPECT_EQ(session->stats().compressions, 1);
      for (const float logit : session->logits()) ASSERT_TRUE(std::isfinite(logit));
    });
  });
}

INSTANTIATE_TEST_SUITE_P(All, MethodFamilies, ::testing::ValuesIn(model::architecture_names()), [](const auto& test) {
  std::string name(test.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// 20 000 generated tokens, of every method that compresses again and again.
TEST(EndlessGeneration, StaysInsideBudgetPlusRepeat) {
  constexpr int64_t kSteps = 20000;
  RandomModelSpec spec = small_spec("llama", "Q8_0");
  spec.context = kPrompt + kSteps;
  const RandomModelFile file(spec);
  BackendOptions backend;
  backend.threads = 1;
  const std::unique_ptr<Engine> engine = load_engine(file.path(), "cpu", backend);
  ASSERT_NE(engine, nullptr);
  int promised = 0;
  for (const policy::KvEntry& entry : policy::kv_rules()) {
    if (entry.preset.rule == policy::KvRule::kKeepAll || entry.preset.repeat == 0) continue;
    SCOPED_TRACE(entry.name);
    ++promised;
    SessionOptions options;
    options.kv = entry.preset;
    const auto session = open(*engine, options);
    ASSERT_TRUE(session->prefill(random_tokens(kPrompt, engine->config().vocab, 7)).ok());
    const int64_t most = options.kv->budget + options.kv->repeat;
    for (const int32_t token : random_tokens(kSteps, engine->config().vocab, 8)) {
      ASSERT_TRUE(session->decode(token).ok());
      for (int layer = 0; layer < engine->config().layers; ++layer)
        for (int h = 0; h < engine->config().kv_heads; ++h) ASSERT_LE(session->store().length(layer, h), most);
    }
    EXPECT_EQ(session->position(), kPrompt + kSteps);
    EXPECT_GT(session->stats().compressions, 70);
  }
  EXPECT_GE(promised, 6) << "latent, h2o, tova, knorm, keydiff, streaming";
}

}  // namespace
}  // namespace ei::testing
