// Every method of the cache that scores by attention against a plain twin (support/plain_kv.h), over random traces,
// budgets and stages. The registry is walked: a new one is compared by being there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "policy/kv/option_table.h"
#include "policy/registry.h"
#include "support/kv_run.h"
#include "support/plain_kv.h"

namespace ei::policy {
namespace {

using testing::KvTrace;
using testing::PlainKv;

std::vector<KvOptions> attention_presets() {
  std::vector<KvOptions> presets;
  for (const KvEntry& entry : kv_rules()) {
    if (entry.preset.rule == KvRule::kKeepAll) continue;
    if (make_kv_method(entry.preset, {})->rates_attention()) presets.push_back(entry.preset);
  }
  return presets;
}

// Whole multiples of this are added and divided by any number of the trace's heads without rounding, so that what ties
// for the twin ties for the method.
double exact_unit(const KvTrace& trace) {
  int32_t odd = trace.shape.heads;
  while (odd % 2 == 0) odd /= 2;
  return odd / 16384.0;
}

// Attention that sums to about one in every head.
KvTrace smooth_trace(uint64_t seed, int64_t length) {
  KvTrace trace = testing::random_kv_trace(seed, length);
  const double unit = exact_unit(trace);
  for (std::vector<float>& attention : trace.attention) {
    for (auto row = attention.begin(); row != attention.end(); row += trace.stride) {
      const auto sum = static_cast<double>(std::accumulate(row, row + length, 0.0f));
      for (auto slot = row; slot != row + trace.stride; ++slot)
        *slot = static_cast<float>(unit * std::round(static_cast<double>(*slot) / sum / unit));
    }
  }
  return trace;
}

// Five scores for all slots and three entropies for all layers, so that most are equal to others.
KvTrace tied_trace(uint64_t seed, int64_t length) {
  KvTrace trace = testing::random_kv_trace(seed, length);
  const double unit = exact_unit(trace);
  Random random(seed);
  for (std::vector<float>& attention : trace.attention)
    for (float& one : attention) one = static_cast<float>(unit * static_cast<double>(random.below(5)));
  for (std::vector<float>& entropies : trace.row_entropy)
    std::fill(entropies.begin(), entropies.end(), static_cast<float>(random.below(3)));
  return trace;
}

// kv_heads that hold other slots each, as an earlier compression may have left them.
KvTrace ragged_trace(uint64_t seed, int64_t length) {
  KvTrace trace = smooth_trace(seed, length);
  Random random(seed);
  for (size_t h = 1; h < trace.lengths.size(); ++h) trace.lengths[h] = random.between(1, length);
  return trace;
}

void set_random_budget(KvOptions& options, const KvTrace& trace, Random& random) {
  const int64_t text = *std::max_element(trace.lengths.begin(), trace.lengths.end());
  const int64_t slots = options.window + options.sinks + random.between(1, std::max<int64_t>(1, text));
  options.keep_slots(static_cast<int32_t>(slots));
  switch (random.below(4)) {
    case 0:
      options.budget_share = random.uniform();
      options.budget_base = random.below(2) == 0 ? 0 : 20;
      break;
    case 1: {
      const int64_t of_slots = trace.shape.layers * trace.shape.kv_heads * trace.shape.slot_bytes;
      options.budget_bytes = of_slots * slots + random.below(of_slots);
      break;
    }
    default: break;
  }
}

void expect_as_the_plain_twin(const KvOptions& options, const KvTrace& trace) {
  ASSERT_TRUE(validate(options).ok()) << validate(options).error().message;
  ASSERT_TRUE(make_kv_method(options, trace.shape)->check().ok());
  EXPECT_EQ(
      make_kv_method(options, trace.shape)->budget_at(*std::max_element(trace.lengths.begin(), trace.lengths.end())),
      PlainKv(options, trace).budget());
  EXPECT_EQ(testing::run_kv_method(options, trace), PlainKv(options, trace).keeps());
}

TEST(AttentionMethods, KeepWhatTheirPlainTwinDoesAsTheyArePublished) {
  const std::vector<KvOptions> presets = attention_presets();
  for (const char* name : {"latent", "snapkv", "adakv", "pyramid", "ada-pyramid", "entropy-kv", "h2o", "tova"})
    EXPECT_TRUE(std::any_of(presets.begin(), presets.end(), [&](const auto& one) { return one.rule.name == name; }))
        << name;
  for (const KvOptions& preset : presets) {
    for (uint64_t seed = 1; seed <= 16; ++seed) {
      SCOPED_TRACE(::testing::Message() << preset.rule.name << ", seed " << seed);
      Random random(seed);
      const int64_t length = random.between(30, 260);
      for (KvTrace trace : {smooth_trace(seed, length), tied_trace(seed, length)}) {
        trace.shape.slot_bytes = 24;
        KvOptions options = preset;
        set_random_budget(options, trace, random);
        expect_as_the_plain_twin(options, trace);
      }
    }
  }
}

KvOptions random_stages(KvOptions options, Random& random, bool even) {
  const auto one_of = [&](auto first, auto... others) {
    const decltype(first) values[] = {first, others...};
    return values[random.below(1 + static_cast<int64_t>(sizeof...(others)))];
  };
  options.granularity = one_of(KvGranularity::kHead, KvGranularity::kKvHead, KvGranularity::kLayer);
  options.layers = one_of(KvLayers::kFlat, KvLayers::kPyramid, KvLayers::kEntropy, KvLayers::kSpread, KvLayers::kFocus,
                          KvLayers::kDistinct, KvLayers::kMass, KvLayers::kEntropyInverse);
  options.share = one_of(KvShare::kFlat, KvShare::kAdaptive, KvShare::kDistinct);
  if (even || options.granularity == KvGranularity::kLayer) options.share = KvShare::kFlat;
  options.rounding = one_of(KvRounding::kExact, KvRounding::kReleased);
  options.pooling = one_of(Pooling::kAverage, Pooling::kMax);
  options.kernel = one_of(1, 3, 5, 7);
  options.aggregate = one_of(GroupAggregate::kMean, GroupAggregate::kMax);
  options.key_share = one_of(0.0, 0.0, 0.3, 0.5, 0.9);
  options.attended = one_of(0.0, 0.3, 2.0);
  options.window = one_of(1, 6, 32);
  options.sinks = one_of(0, 4);
  options.recent = one_of(0.0, 0.0, 0.25, 0.5);
  options.floor_share = one_of(0.0, 0.2, 0.5, 1.0);
  return options;
}

TEST(AttentionMethods, KeepWhatTheirPlainTwinDoesWithAnyStages) {
  const std::set<std::string_view> stages = {"kv-granularity", "kv-layers",  "kv-share",
                                             "kv-rounding",    "kv-pooling", "kv-aggregate"};
  const std::set<std::string_view> research = {"entropy-rest", "entropy-shuffled"};  // what they are made of is known
  std::map<std::string, int> seen;
  for (const KvOptions& preset : attention_presets()) {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      SCOPED_TRACE(::testing::Message() << preset.rule.name << ", seed " << seed);
      Random random(seed);
      const int64_t length = random.between(1, 200);
      const bool ragged = seed % 3 == 0;
      KvTrace trace = ragged          ? ragged_trace(seed, length)
                      : seed % 3 == 1 ? smooth_trace(seed, length)
                                      : tied_trace(seed, length);
      trace.shape.slot_bytes = 24;
      KvOptions options = random_stages(preset, random, ragged);
      if (ragged && options.granularity == KvGranularity::kLayer) options.granularity = KvGranularity::kKvHead;
      set_random_budget(options, trace, random);
      expect_as_the_plain_twin(options, trace);
      for (const OptionSpec<KvOptions>& spec : kv_option_table())
        if (!spec.choices.empty()) ++seen[std::string(spec.name) + " " + option_text(spec.get(options))];
    }
  }
  for (const OptionSpec<KvOptions>& spec : kv_option_table()) {
    if (!stages.contains(spec.name)) continue;
    for (const std::string_view choice : spec.choices)
      EXPECT_EQ(seen[std::string(spec.name) + " " + std::string(choice)] >= 20, !research.contains(choice)) << choice;
  }
}

}  // namespace
}  // namespace ei::policy
