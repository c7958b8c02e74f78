// What must hold for every KV method, whatever it decides: the registry is walked, so a new row is tested by being
// there.
#include "policy/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "base/random.h"
#include "policy/kv/option_table.h"
#include "support/kv_run.h"
#include "support/kv_stages.h"

namespace ei::policy {
namespace {

using testing::KvKeeps;
using testing::KvTrace;
using testing::random_kv_trace;
using testing::run_kv_method;

KvOptions shrunk(KvOptions options) {
  options.keep_slots(48);
  options.window = std::min(options.window, 8);
  options.kernel = std::min(options.kernel, 3);
  return options;
}

// Every method with its preset, then every stage over the plain one, small enough to decide a hundred times.
std::vector<std::pair<std::string, KvOptions>> all_kv() {
  std::vector<std::pair<std::string, KvOptions>> all;
  for (const KvEntry& entry : kv_rules())
    if (entry.preset.rule != KvRule::kKeepAll) all.emplace_back(entry.name, entry.preset);
  KvOptions options{.rule = KvRule::kLatent};
  options.layers = KvLayers::kPyramid;
  all.emplace_back("pyramid", options);
  options.share = KvShare::kAdaptive;
  all.emplace_back("adaptive pyramid", options);
  options.granularity = KvGranularity::kHead;
  all.emplace_back("adaptive pyramid of heads", options);
  options = {.rule = KvRule::kLatent, .granularity = KvGranularity::kHead};
  all.emplace_back("heads", options);
  options.granularity = KvGranularity::kLayer;
  all.emplace_back("layers", options);
  options = find_kv_rule({"streaming"})->preset;
  options.layers = KvLayers::kSpread;
  all.emplace_back("streaming by spread", options);
  options.queries = QuerySource::kSampled;
  all.emplace_back("streaming by spread of a sample", options);
  options = {.rule = KvRule::kLatent, .layers = KvLayers::kDistinct};
  all.emplace_back("distinct", options);
  options.layers = KvLayers::kMass;
  all.emplace_back("mass", options);
  options.granularity = KvGranularity::kLayer;
  all.emplace_back("mass of layers", options);
  options = {.rule = KvRule::kLatent, .share = KvShare::kDistinct};
  all.emplace_back("kv_heads by distinct", options);
  options = {.rule = KvRule::kLatent, .layers = KvLayers::kEntropyRest};
  all.emplace_back("entropy behind sinks", options);
  options.layers = KvLayers::kEntropyShuffled;
  all.emplace_back("shuffled layers", options);
  for (auto& [name, large] : all) large = shrunk(large);
  return all;
}

// Every stage that papers compose over every score.
std::vector<std::pair<std::string, KvOptions>> all_composed() {
  std::vector<std::pair<std::string, KvOptions>> all = testing::composed_kv();
  for (auto& [name, options] : all) {
    options = shrunk(options);
    EXPECT_TRUE(validate(options).ok()) << name;
  }
  return all;
}

template <typename Check>
void for_every_kv_method_and_trace(Check check) {
  const auto over = [&](const auto& methods, uint64_t seeds) {
    for (const auto& [name, options] : methods) {
      for (uint64_t seed = 1; seed <= seeds; ++seed) {
        SCOPED_TRACE(::testing::Message() << name << ", seed " << seed);
        check(options, random_kv_trace(seed, Random(seed).between(1, 200)));
      }
    }
  };
  over(all_kv(), 25);
  over(all_composed(), 6);
}

int64_t kept_slots(const KvTrace& trace, const KvKeeps& keeps) {
  int64_t slots = 0;
  for (const auto& layer : keeps)
    for (size_t h = 0; h < layer.size(); ++h)
      slots += layer[h].empty() ? trace.lengths[h] : static_cast<int64_t>(layer[h].size());
  return slots;
}

TEST(KvMethods, HaveUniqueNamesAndValidPresets) {
  std::set<std::string_view> names;
  for (const KvEntry& entry : kv_rules()) {
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(names.insert(entry.name).second);
    EXPECT_FALSE(entry.about.empty());
    EXPECT_TRUE(validate(entry.preset).ok());
    EXPECT_EQ(entry.preset.rule.name, entry.name);
    EXPECT_EQ(find_kv_rule(entry.preset.rule), &entry);
    EXPECT_EQ(make_kv_method(entry.preset, {}) == nullptr, entry.preset.rule == KvRule::kKeepAll);
  }
  EXPECT_TRUE(names.contains("full"));
  EXPECT_EQ(find_kv_rule({"fool"}), nullptr);
}

TEST(KvMethods, KeepSinksTheWindowAndSlotsThatAreThere) {
  for_every_kv_method_and_trace([](KvOptions options, const KvTrace& trace) {
    options.sinks = 4;
    const KvKeeps keeps = run_kv_method(options, trace);
    for (const auto& layer : keeps) {
      for (size_t h = 0; h < layer.size(); ++h) {
        const KeepList& keep = layer[h];
        if (keep.empty()) continue;
        EXPECT_TRUE(std::adjacent_find(keep.begin(), keep.end(), std::greater_equal<>()) == keep.end());
        ASSERT_GE(static_cast<int32_t>(keep.size()), options.sinks + options.window);
        for (int32_t i = 0; i < options.sinks; ++i) EXPECT_EQ(keep[static_cast<size_t>(i)], i);
        for (int32_t i = 1; i <= options.window; ++i)
          EXPECT_EQ(keep[keep.size() - static_cast<size_t>(i)], trace.lengths[h] - i);
      }
    }
  });
}

TEST(KvMethods, KeepExactlyTheBudgetInTheMean) {
  for_every_kv_method_and_trace([](KvOptions options, const KvTrace& trace) {
    options.rounding = KvRounding::kExact;
    const int64_t sets = int64_t{trace.shape.layers} * trace.shape.kv_heads;
    const int64_t budget = sets * std::min<int64_t>(options.budget, trace.lengths[0]);
    const int64_t kept = kept_slots(trace, run_kv_method(options, trace));
    if (options.granularity != KvGranularity::kHead) {
      EXPECT_EQ(kept, budget);
    } else {  // every head of a group keeps its own, and some of these are the same
      EXPECT_GE(kept, budget);
      EXPECT_LE(kept, std::min(trace.shape.layers * trace.held(),
                               sets * (options.window + trace.shape.group() * (options.budget - options.window))));
    }
  });
}

// A budget is slots, a share of the text or bytes: whichever, it is met to the slot, and bytes are never exceeded.
TEST(KvMethods, KeepExactlyTheirShareOfTheTextOrBytes) {
  for_every_kv_method_and_trace([](KvOptions options, KvTrace trace) {
    if (options.granularity == KvGranularity::kHead) return;
    trace.shape.slot_bytes = 24;
    const int64_t sets = int64_t{trace.shape.layers} * trace.shape.kv_heads;
    const KvRounding rounding = std::exchange(options.rounding, KvRounding::kExact);
    options.budget_share = 0.37;
    options.budget_base = 0;
    const auto share = static_cast<int64_t>(std::ceil(0.37 * static_cast<double>(trace.lengths[0])));
    const int64_t slots = std::min(std::max<int64_t>(share, options.window + options.sinks + 1), trace.lengths[0]);
    EXPECT_EQ(kept_slots(trace, run_kv_method(options, trace)), sets * slots) << "37 %";
    options.budget_share = 0;
    options.rounding = rounding;  // the preset's: bytes are a limit whatever it is
    options.budget_bytes = sets * 24 * 30 + 23;
    const int64_t bytes = 24 * kept_slots(trace, run_kv_method(options, trace));
    EXPECT_EQ(bytes, 24 * sets * std::min<int64_t>(30, trace.lengths[0]));
    EXPECT_LE(bytes, options.budget_bytes);
  });
}

TEST(KvMethods, DecideTheSameTwice) {
  for_every_kv_method_and_trace([](const KvOptions& options, const KvTrace& trace) {
    EXPECT_EQ(run_kv_method(options, trace), run_kv_method(options, trace));
  });
}

TEST(KvMethods, KeepEverythingWhenTheBudgetCoversIt) {
  for_every_kv_method_and_trace([](KvOptions options, const KvTrace& trace) {
    options.keep_slots(200);
    for (const auto& layer : run_kv_method(options, trace))
      for (const KeepList& keep : layer) EXPECT_TRUE(keep.empty());
  });
}

TEST(KvMethods, PermutedKvHeadsPermuteTheResult) {
  for_every_kv_method_and_trace([](KvOptions options, const KvTrace& trace) {
    options.rounding = KvRounding::kReleased;  // what is left over by exact rounding goes to the lower kv_head
    KvTrace turned = trace;
    const auto heads = static_cast<size_t>(trace.shape.kv_heads);
    const auto rows = static_cast<std::ptrdiff_t>(trace.shape.group() * trace.stride);
    for (std::vector<float>& scores : turned.attention)
      std::rotate(scores.begin(), scores.begin() + rows, scores.end());
    for (std::vector<float>& keys : turned.keys) std::rotate(keys.begin(), keys.begin() + trace.stride, keys.end());
    for (std::vector<float>& entropies : turned.row_entropy)
      std::rotate(entropies.begin(), entropies.begin() + trace.shape.group(), entropies.end());
    const KvKeeps keeps = run_kv_method(options, trace);
    const KvKeeps others = run_kv_method(options, turned);
    for (size_t layer = 0; layer < keeps.size(); ++layer) {
      for (size_t h = 0; h < heads; ++h) {
        const KeepList& same = keeps[layer][(h + 1) % heads];
        // Shares that no released code rounds are rounded exactly, whatever the option says.
        if (options.share == KvShare::kDistinct) {
          EXPECT_LE(std::max(others[layer][h].size(), same.size()), std::min(others[layer][h].size(), same.size()) + 1);
        } else {
          EXPECT_EQ(others[layer][h], same);
        }
      }
    }
  });
}

// Each option of the table is read by something, has a help text, and takes the value it shows.
TEST(KvMethods, DeclareOptionsThatTakeTheirOwnValues) {
  std::set<std::string_view> names;
  for (const OptionSpec<KvOptions>& spec : kv_option_table()) {
    SCOPED_TRACE(spec.name);
    EXPECT_TRUE(names.insert(spec.name).second);
    EXPECT_FALSE(spec.help.empty());
    bool read = false;
    std::vector<std::pair<std::string, KvOptions>> all = all_kv();
    all.emplace_back("pages", KvOptions{.read = 64});
    for (const auto& [name, options] : all) {
      read = read || spec.read(options);
      KvOptions copy;
      const OptionValue value = spec.get(options);
      std::string text;
      if (const auto* whole = std::get_if<int64_t>(&value)) text = std::to_string(*whole);
      if (const auto* real = std::get_if<double>(&value)) text = str_format("%.17g", *real);
      if (const auto* word = std::get_if<std::string_view>(&value)) text = *word;
      if (const auto* own = std::get_if<std::string>(&value)) text = *own;
      EXPECT_TRUE(spec.set(copy, text).ok()) << text;
      EXPECT_EQ(spec.get(copy), value);
    }
    EXPECT_TRUE(read);
    const bool of_whole_caches = spec.name == "kv-policy" || spec.name == "kv-read";
    EXPECT_EQ(spec.read(KvOptions{}), of_whole_caches) << "what is kept whole has nothing to choose";
  }
}

}  // namespace
}  // namespace ei::policy
