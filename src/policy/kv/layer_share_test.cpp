#include "policy/kv/layer_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/random.h"

namespace ei::policy {
namespace {

using Counts = std::vector<int64_t>;

KvOptions released() { return {.rounding = KvRounding::kReleased}; }

int64_t sum_of_layers(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

TEST(Apportion, GivesTheLargestRemaindersOneMore) {
  // 1.7, 3.4, 4.9 of ten: whole parts 1, 3, 4, and the two left go to .9 and .7.
  EXPECT_EQ(apportion(std::vector<double>{1.7, 3.4, 4.9}, 10, 0, Counts{99, 99, 99}), (Counts{2, 3, 5}));
  EXPECT_EQ(apportion(std::vector<double>{1, 1, 1}, 8, 0, Counts{99, 99, 99}), (Counts{3, 3, 2})) << "the lower first";
  EXPECT_EQ(apportion(std::vector<double>{0, 0}, 8, 0, Counts{99, 99}), (Counts{4, 4})) << "no weight: all the same";
}

TEST(Apportion, AddsWeightedPartsToTheLeast) {
  EXPECT_EQ(apportion(std::vector<double>{1, 3}, 20, 4, Counts{99, 99}), (Counts{7, 13}));
}

TEST(Apportion, GivesWhatOneCannotTakeToTheOthers) {
  EXPECT_EQ(apportion(std::vector<double>{8, 1, 1}, 30, 0, Counts{10, 99, 99}), (Counts{10, 10, 10}));
  EXPECT_EQ(apportion(std::vector<double>{8, 1}, 30, 0, Counts{10, 12}), (Counts{10, 12})) << "there is no more";
}

TEST(Apportion, SumsExactlyWhateverTheWeights) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto layers = static_cast<size_t>(random.between(1, 40));
    std::vector<double> weights;
    Counts most;
    for (size_t i = 0; i < layers; ++i) {
      weights.push_back(static_cast<double>(random.below(1000)) / 7);
      most.push_back(random.between(20, 400));
    }
    const int64_t least = random.between(0, 20);
    const int64_t total = random.between(static_cast<int64_t>(layers) * least, 300 * static_cast<int64_t>(layers));
    const Counts counts = apportion(weights, total, least, most);
    EXPECT_EQ(sum_of_layers(counts), std::min(total, sum_of_layers(most)));
    for (size_t i = 0; i < layers; ++i) {
      EXPECT_GE(counts[i], std::min(least, most[i]));
      EXPECT_LE(counts[i], most[i]);
    }
  }
}

// The formula, term by term.
TEST(EntropyBudgets, AreAFloorAndAPartInProportionToTheEntropy) {
  const KvOptions options{.window = 8, .layers = KvLayers::kEntropy, .floor_share = 0.2};
  const std::vector<LayerState> layers = {{1000, 1.0}, {1000, 3.0}, {1000, 0.0}};
  // B = 100, B_min = 20: 20 + 3 * 80 * (1/4, 3/4, 0)
  EXPECT_EQ(entropy_budgets(options, 100, layers), (Counts{80, 200, 20}));
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<LayerState> all;
    double entropies = 0;
    for (int64_t i = random.between(1, 30); i > 0; --i) {
      all.push_back({100000, static_cast<double>(random.between(1, 900)) / 100});
      entropies += all.back().entropy;
    }
    const int64_t budget = random.between(50, 2000);
    const Counts counts = entropy_budgets(options, budget, all);
    const auto n = static_cast<double>(all.size());
    const double least = std::max(8.0, std::floor(0.2 * static_cast<double>(budget)));
    EXPECT_EQ(sum_of_layers(counts), budget * static_cast<int64_t>(all.size()));
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_NEAR(static_cast<double>(counts[i]),
                  least + n * (static_cast<double>(budget) - least) * all[i].entropy / entropies, 1.0);
  }
}

TEST(EntropyBudgets, NoLayerGetsMoreThanItHoldsNorLessThanWindowAndSinks) {
  const KvOptions options{.window = 8, .sinks = 4, .layers = KvLayers::kEntropy, .floor_share = 0};
  EXPECT_EQ(entropy_budgets(options, 100, std::vector<LayerState>{{120, 9.0}, {120, 0.0}}), (Counts{120, 80}));
  EXPECT_EQ(entropy_budgets(options, 20, std::vector<LayerState>{{120, 9.0}, {120, 0.0}}), (Counts{28, 12}));
}

TEST(LayerWeights, OfTheVariants) {
  const std::vector<LayerState> layers = {{9, 1.0}, {9, 3.0}, {9, 2.5}};
  EXPECT_EQ(layer_weights(KvLayers::kEntropy, 4, layers), (std::vector<double>{1, 3, 2.5}));
  EXPECT_EQ(layer_weights(KvLayers::kEntropyInverse, 4, layers), (std::vector<double>{3, 1, 1.5}));
  const std::vector<double> spread = layer_weights(KvLayers::kSpread, 4, layers);
  EXPECT_NEAR(spread[1] / spread[0], std::exp(2.0), 1e-9);
  const std::vector<double> focus = layer_weights(KvLayers::kFocus, 4, layers);
  EXPECT_NEAR(focus[0] / focus[1], std::exp(2.0), 1e-9);
  std::vector<double> shuffled = layer_weights(KvLayers::kEntropyShuffled, 4, layers);
  EXPECT_EQ(shuffled, layer_weights(KvLayers::kEntropyShuffled, 4, layers));
  EXPECT_TRUE(std::is_permutation(shuffled.begin(), shuffled.end(), std::vector<double>{1, 3, 2.5}.begin()));
}

TEST(LayerWeights, ShufflesAreOthersWithAnotherSeed) {
  std::vector<LayerState> layers;
  for (int i = 1; i <= 8; ++i) layers.push_back({9, static_cast<double>(i)});
  std::set<std::vector<double>> seen;
  for (int32_t seed = 1; seed <= 5; ++seed) {
    const std::vector<double> weights = layer_weights(KvLayers::kEntropyShuffled, 4, layers, seed);
    EXPECT_EQ(weights, layer_weights(KvLayers::kEntropyShuffled, 4, layers, seed));
    EXPECT_TRUE(seen.insert(weights).second) << seed;
    const KvOptions options{.window = 1, .layers = KvLayers::kEntropyShuffled, .floor_share = 0, .seed = seed};
    const Counts counts = entropy_budgets(options, 5, layers);
    const auto largest = std::max_element(weights.begin(), weights.end()) - weights.begin();
    EXPECT_EQ(std::max_element(counts.begin(), counts.end()) - counts.begin(), largest) << "the option is read";
  }
}

TEST(LayerWeights, RestIsTheEntropyBehindTheSinks) {
  const std::vector<LayerState> layers = {{.held = 9, .entropy = 1, .rest_entropy = 4},
                                          {.held = 9, .entropy = 3, .rest_entropy = 2}};
  EXPECT_EQ(layer_weights(KvLayers::kEntropyRest, 4, layers), (std::vector<double>{4, 2}));
}

TEST(LayerWeights, DistinctCountsTheDifferentPlacesThatQueriesLookAt) {
  // The first layer's queries all look at the same e^5 slots, the second's each at e^2 of e^4.
  const std::vector<LayerState> layers = {{.held = 900, .entropy = 5, .mean_entropy = 5},
                                          {.held = 900, .entropy = 2, .mean_entropy = 4}};
  const std::vector<double> weights = layer_weights(KvLayers::kDistinct, 4, layers);
  EXPECT_DOUBLE_EQ(weights[0], 1);
  EXPECT_DOUBLE_EQ(weights[1], std::exp(2.0));
}

TEST(LayerWeights, MassIsWhereTheBestSlotsOfAllLayersStand) {
  const std::vector<SlotScores> flat = {{0.2f, 0.2f, 0.2f, 0.2f}, {0.25f, 0.25f, 0.1f, 0.1f}};
  const std::vector<SlotScores> sharp = {{0.9f, 0.0f, 0.0f, 0.0f}, {0.5f, 0.3f, 0.0f, 0.05f}};
  const std::vector<LayerState> layers = {{.held = 5, .sets = flat}, {.held = 5, .sets = sharp}};
  // 2 slots of each of 4 sets: 0.9, 0.5, 0.3, two of 0.25 and three of 0.2.
  EXPECT_EQ(layer_weights(KvLayers::kMass, 2, layers), (std::vector<double>{5, 3}));
  const KvOptions options{.window = 1, .layers = KvLayers::kMass, .floor_share = 0};
  EXPECT_EQ(entropy_budgets(options, 3, layers), (Counts{4, 2})) << "1 + 4 * (5/8, 3/8), rounded";
}

TEST(Pyramid, FallsFromTheFirstLayerToTheLast) {
  // base 100: the last layer a twentieth, the first what makes the mean 100.
  EXPECT_EQ(pyramid_slots(released(), 100, 3, 1000), (Counts{195, 100, 5}));
  EXPECT_EQ(pyramid_slots(released(), 100, 4, 1000), (Counts{195, 132, 69, 6})) << "steps of whole slots";
  EXPECT_EQ(pyramid_slots(released(), 100, 1, 1000), Counts{100});
}

TEST(Pyramid, IsCutToWhatThereIs) { EXPECT_EQ(pyramid_slots(released(), 100, 3, 150), (Counts{150, 100, 50})); }

TEST(Pyramid, LeavesRoomForTheSinks) { EXPECT_EQ(pyramid_slots({.sinks = 16}, 100, 3, 1000), (Counts{184, 100, 16})); }

TEST(Pyramid, SumsExactlyOnTheSameLine) {
  for (int64_t layers = 1; layers <= 40; ++layers) {
    for (const int64_t base : {1, 7, 100, 992}) {
      SCOPED_TRACE(::testing::Message() << layers << " layers, base " << base);
      const Counts exact = pyramid_slots({}, base, layers, 4096);
      EXPECT_EQ(sum_of_layers(exact), base * layers);
      EXPECT_TRUE(std::is_sorted(exact.rbegin(), exact.rend()));
      const Counts stepped = pyramid_slots(released(), base, layers, 4096);
      for (size_t i = 0; i < exact.size(); ++i) EXPECT_LE(std::abs(exact[i] - stepped[i]), layers);
    }
  }
}

}  // namespace
}  // namespace ei::policy
