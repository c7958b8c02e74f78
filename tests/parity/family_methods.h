// Every method on a model of every family, for the tests that walk the registries: a new method and a new family are
// tested by being there.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/session.h"
#include "model/config.h"
#include "parity/parity_models.h"
#include "policy/registry.h"

namespace ei::testing {

inline constexpr int64_t kPrompt = 420;
inline constexpr int32_t kBudget = 64;

// Twice as deep as other tests want it: of the last layer only the last rows attend.
inline RandomModelSpec family_spec(std::string_view family) {
  RandomModelSpec spec = small_spec(std::string(family), "Q8_0");
  spec.layers *= 2;
  return spec;
}

inline const Engine& family_engine(std::string_view family) {
  static std::map<std::string_view, std::unique_ptr<Engine>> engines;
  std::unique_ptr<Engine>& engine = engines[family];
  if (engine == nullptr) {
    const RandomModelFile file(family_spec(family));
    BackendOptions backend;
    backend.threads = 1;
    engine = load_engine(file.path(), "cpu", backend);
  }
  return *engine;
}

inline std::unique_ptr<Session> open(const Engine& engine, const SessionOptions& options) {
  auto made = engine.new_session(options);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return std::move(made).value();
}

inline std::vector<float> logits_of(const Session& session) {
  return {session.logits().begin(), session.logits().end()};
}

inline void feed(Session& session, int count, int32_t first = 20) {
  for (int32_t token = 0; token < count; ++token) ASSERT_TRUE(session.decode(first + token).ok());
}

inline std::vector<int32_t> positions_of(const KvHeadView& head) {
  std::vector<int32_t> positions;
  for (int64_t slot = 0; slot < head.length; ++slot) positions.push_back(head.position(slot));
  return positions;
}

inline std::vector<int32_t> positions_of(const Session& session, int layer, size_t kv_head) {
  const KvView view = session.store().view(layer);
  return positions_of(view.heads[kv_head]);
}

inline std::vector<int32_t> kept_positions(const Session& session) {
  std::vector<int32_t> all;
  for (int layer = 0; layer < session.store().config().layers; ++layer)
    for (const KvHeadView& head : session.store().view(layer).heads)
      for (const int32_t position : positions_of(head)) all.push_back(position);
  return all;
}

// How many stand in one of two lists, but not in both.
inline int64_t in_one_alone(const std::vector<int32_t>& one, const std::vector<int32_t>& other) {
  std::vector<int32_t> alone;
  std::set_symmetric_difference(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(alone));
  return std::ssize(alone);
}

inline std::string family_name(const ::testing::TestParamInfo<std::string_view>& test) {
  std::string name(test.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class FamilyMethods : public ::testing::TestWithParam<std::string_view> {
 protected:
  const Engine& engine() const { return family_engine(GetParam()); }
  std::vector<int32_t> prompt(uint64_t seed) const { return random_tokens(kPrompt, engine().config().vocab, seed); }
  bool global(int layer) const { return engine().config().per_layer[static_cast<size_t>(layer)].window == 0; }

  // Every KV method but the one that keeps all; small enough to act on the prompt, at its end. Windows as published,
  // which are shorter for some, or as long as fits beside a choice.
  void for_every_kv(const std::function<void(SessionOptions options)>& check) const {
    for (const policy::KvEntry& entry : policy::kv_rules()) {
      if (entry.preset.rule == policy::KvRule::kKeepAll) continue;
      SCOPED_TRACE(entry.name);
      SessionOptions options;
      options.kv = entry.preset;
      options.kv->keep_slots(kBudget);
      options.kv->window = std::min(options.kv->window, 16);
      options.kv->gap = -1;
      check(options);
    }
  }

  // Whatever a generated token reads less by: those, and pages of a whole cache in every layer.
  void for_every_generation(const std::function<void(SessionOptions options)>& check) const {
    for_every_kv(check);
    for (const policy::Method& method : policy::methods()) {
      if (method.kv.read == 0) continue;
      SCOPED_TRACE(method.name);
      SessionOptions options;
      options.kv = method.kv;
      options.kv->read = kBudget;
      options.kv->read_skip = 0;
      check(options);
    }
  }
  // It has acted on the prompt and `fed` tokens behind it.
  static void expect_acted(const Session& session, const SessionOptions& options, int64_t fed) {
    const bool pages = options.kv->read > 0;
    EXPECT_EQ(session.stats().compressions, pages ? 0 : 1);
    EXPECT_EQ(session.stats().paged_tokens, pages ? fed : 0);
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

}  // namespace ei::testing
