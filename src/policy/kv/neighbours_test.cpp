// KV methods that are presets over attention, against what their papers say.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "policy/registry.h"
#include "support/kv_run.h"

namespace ei::policy {
namespace {

using testing::KvKeeps;
using testing::KvTrace;
using testing::random_kv_trace;
using testing::run_kv_method;

KvOptions small(const char* name) {
  KvOptions options = find_kv_rule({name})->preset;
  options.keep_slots(40);
  return options;
}

// The `count` largest of the first `slots` values and the rest up to `length`.
KeepList largest(const std::vector<double>& values, int64_t count, int64_t slots, int64_t length) {
  std::vector<int32_t> order(static_cast<size_t>(slots));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  for (int64_t slot = slots; slot < length; ++slot) order.push_back(static_cast<int32_t>(slot));
  return order;
}

TEST(Tova, KeepsWhatTheLastQueryAttendsToInTheMeanOfAllHeads) {
  const KvOptions options = small("tova");
  EXPECT_EQ(options.window, 1);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const KvTrace trace = random_kv_trace(seed, 100);
    const KvKeeps keeps = run_kv_method(options, trace);
    for (size_t layer = 0; layer < keeps.size(); ++layer) {
      std::vector<double> mean(100);
      for (int64_t head = 0; head < trace.shape.heads; ++head)
        for (int64_t slot = 0; slot < 100; ++slot)
          mean[static_cast<size_t>(slot)] +=
              static_cast<double>(trace.attention[layer][static_cast<size_t>(head * trace.stride + slot)]);
      for (const KeepList& keep : keeps[layer]) EXPECT_EQ(keep, largest(mean, 39, 99, 100));
    }
  }
}

TEST(Pyramid, GivesTheFirstLayersMore) {
  const KvOptions options = small("pyramid");
  EXPECT_EQ(options.window, 8);
  EXPECT_EQ(options.kernel, 7);
  EXPECT_EQ(options.pooling, Pooling::kMax);
  const auto method = make_kv_method(options, {.layers = 4});
  // 32 outside the window on average, from 63 to 1 in equal steps: 63, 42 1/3, 21 2/3, 1.
  EXPECT_EQ(method->layer_budgets(40, std::vector<LayerState>(4, {.held = 1000})),
            (std::vector<int64_t>{71, 50, 30, 9}));
}

// SnapKV's scores: the mean over the heads of a group, each the largest of seven neighbours outside the window.
TEST(Pyramid, KeepsInEachLayerWhatTheGroupScoresMost) {
  const KvOptions options = small("pyramid");
  constexpr int64_t kLength = 300;
  constexpr int64_t kOutside = kLength - 8;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const KvTrace trace = random_kv_trace(seed, kLength);
    const int64_t group = trace.shape.group();
    const auto budgets =
        make_kv_method(options, trace.shape)
            ->layer_budgets(40, std::vector<LayerState>(static_cast<size_t>(trace.shape.layers), {.held = kLength}));
    const KvKeeps keeps = run_kv_method(options, trace);
    for (size_t layer = 0; layer < keeps.size(); ++layer) {
      for (size_t kv_head = 0; kv_head < keeps[layer].size(); ++kv_head) {
        std::vector<float> mean(static_cast<size_t>(kOutside));
        for (int64_t head = 0; head < group; ++head)
          for (int64_t slot = 0; slot < kOutside; ++slot)
            mean[static_cast<size_t>(slot)] += trace.attention[layer][static_cast<size_t>(
                (static_cast<int64_t>(kv_head) * group + head) * trace.stride + slot)];
        std::vector<double> pooled(mean.size());
        for (int64_t slot = 0; slot < kOutside; ++slot)
          for (int64_t near = std::max<int64_t>(0, slot - 3); near <= std::min(kOutside - 1, slot + 3); ++near)
            pooled[static_cast<size_t>(slot)] =
                std::max(pooled[static_cast<size_t>(slot)], static_cast<double>(mean[static_cast<size_t>(near)]));
        EXPECT_EQ(keeps[layer][kv_head], largest(pooled, budgets[layer] - 8, kOutside, kLength));
      }
    }
  }
}

TEST(AdaPyramid, IsAdaKvOverThePyramidOfItsAuthors) {
  const KvOptions ada = find_kv_rule({"adakv"})->preset;
  KvOptions both = find_kv_rule({"ada-pyramid"})->preset;
  EXPECT_EQ(both.layers, KvLayers::kPyramid);
  both.layers = ada.layers;
  both.rule = ada.rule;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const KvTrace trace = random_kv_trace(seed, 1500);
    EXPECT_EQ(run_kv_method(both, trace), run_kv_method(ada, trace));
  }
}

TEST(H2o, KeepsHeavyHittersAndAsManyRecentWhateverTheBudget) {
  KvOptions options = find_kv_rule({"h2o"})->preset;
  EXPECT_TRUE(make_kv_method(options, {})->needs().accumulated);
  for (const int32_t budget : {10, 41, 68, 90}) {
    options.keep_slots(budget);
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const KvTrace trace = random_kv_trace(seed, 100);
      const int32_t group = trace.shape.group();
      const KvKeeps keeps = run_kv_method(options, trace);
      for (size_t layer = 0; layer < keeps.size(); ++layer) {
        for (size_t h = 0; h < keeps[layer].size(); ++h) {
          std::vector<double> worth(100);
          for (size_t i = 0; i < static_cast<size_t>(group); ++i)
            for (size_t slot = 0; slot < 100; ++slot)
              worth[slot] += static_cast<double>(
                  trace.attention[layer]
                                 [(h * static_cast<size_t>(group) + i) * static_cast<size_t>(trace.stride) + slot]);
          EXPECT_EQ(keeps[layer][h], largest(worth, budget - budget / 2, 100 - budget / 2, 100)) << "budget " << budget;
        }
      }
    }
  }
}

TEST(KeysAlone, TheShortestAndTheLeastAlikeStay) {
  for (const char* name : {"knorm", "keydiff"}) {
    const KvOptions options = small(name);
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const KvTrace trace = random_kv_trace(seed, 100);
      const KvKeeps keeps = run_kv_method(options, trace);
      for (size_t layer = 0; layer < keeps.size(); ++layer) {
        for (size_t h = 0; h < keeps[layer].size(); ++h) {
          std::vector<double> worth;
          for (size_t slot = 0; slot < 100; ++slot)
            worth.push_back(-static_cast<double>(trace.keys[layer][h * static_cast<size_t>(trace.stride) + slot]));
          EXPECT_EQ(keeps[layer][h], largest(worth, 8, 68, 100)) << name;
        }
      }
    }
  }
}

TEST(RandomKv, KeepsOthersWithAnotherSeed) {
  KvOptions options = small("random");
  const KvTrace trace = random_kv_trace(3, 400);
  std::set<KeepList> lists;
  for (const int32_t seed : {1, 2, 3}) {
    options.seed = seed;
    for (const auto& layer : run_kv_method(options, trace)) lists.insert(layer[0]);
  }
  EXPECT_EQ(static_cast<int32_t>(lists.size()), 3 * trace.shape.layers) << "no layer repeats another, nor another seed";
}

TEST(RandomKv, KeepsOthersInEveryLayer) {
  const KvOptions options = small("random");
  KvTrace trace = random_kv_trace(3, 400);
  trace.shape.layers = 3;
  trace.attention.resize(3, trace.attention.front());
  std::set<KeepList> lists;
  std::vector<int> counts(400);
  for (const auto& layer : run_kv_method(options, trace)) {
    lists.insert(layer[0]);
    for (const int32_t slot : layer[0]) ++counts[static_cast<size_t>(slot)];
  }
  EXPECT_EQ(lists.size(), 3u);
  EXPECT_GT(std::count_if(counts.begin(), counts.begin() + 184, [](int count) { return count > 0; }), 0);
  EXPECT_GT(std::count_if(counts.begin() + 184, counts.begin() + 368, [](int count) { return count > 0; }), 0);
}

}  // namespace
}  // namespace ei::policy
