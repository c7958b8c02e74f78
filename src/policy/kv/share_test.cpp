#include "policy/kv/share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace ei::policy {
namespace {

using Counts = std::vector<int64_t>;
using Layer = std::vector<HeadScores>;

int64_t sum(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// kv_heads of very different sharpness and length, some without any score.
Layer random_layer(Random& random, int64_t heads, int64_t most_slots) {
  Layer layer;
  for (int64_t h = 0; h < heads; ++h) {
    HeadScores& scores = layer.emplace_back(static_cast<size_t>(random.below(most_slots + 1)));
    const float sharpness = 4 * random.normal();
    const bool silent = random.below(8) == 0;
    for (float& score : scores) score = silent ? 0.0f : std::exp(sharpness * random.normal());
  }
  return layer;
}

TEST(Share, TheBestOfAllAreCountedWhereTheyStand) {
  const Layer layer = {{5, 1, 4}, {}, {3, 3, 9, 0}};
  EXPECT_EQ(top_counts(layer, 3), (Counts{2, 0, 1}));
  EXPECT_EQ(top_counts(layer, 4), (Counts{2, 0, 2}));
  EXPECT_EQ(top_counts(layer, 99), (Counts{3, 0, 4}));
  EXPECT_EQ(top_counts(Layer{{1, 1}, {1, 1}}, 3), (Counts{2, 1}));  // the lower kv_head first among equals
}

TEST(Share, TheFloorRoundsHalvesToEven) {
  EXPECT_EQ(lift_to_floor(Counts{0, 1, 3, 12}, 4, 0.5), (Counts{2, 2, 4, 8}));
  EXPECT_EQ(lift_to_floor(Counts{0, 20}, 10, 0.25), (Counts{2, 17}));
}

TEST(Share, SharesOutExactlyWhatThereIsAndNeverMoreThanAKvHeadHolds) {
  Random random(5);
  for (int round = 0; round < 2000; ++round) {
    const Layer layer = random_layer(random, random.between(1, 9), 200);
    const auto heads = static_cast<int64_t>(layer.size());
    const int64_t base = random.between(1, 150);
    int64_t held = 0;
    for (const HeadScores& scores : layer) held += static_cast<int64_t>(scores.size());
    SCOPED_TRACE(::testing::Message() << "round " << round << " base " << base);
    const Counts counts = share_slots(layer, base);
    ASSERT_EQ(counts.size(), layer.size());
    ASSERT_EQ(counts, share_slots(layer, base));
    ASSERT_EQ(sum(counts), std::min(held, heads * base));
    for (size_t h = 0; h < layer.size(); ++h) {
      const auto size = static_cast<int64_t>(layer[h].size());
      ASSERT_LE(counts[h], size);
      const auto floor = static_cast<int64_t>(kFloorShare * static_cast<double>(base));
      ASSERT_GE(counts[h], std::min(floor, size));
    }
  }
}

TEST(Share, AlikeKvHeadsGetTheFlatBudget) {
  Random random(6);
  for (const int64_t base : {1, 7, 63, 128, 480, 992}) {
    HeadScores scores(1500);
    for (float& score : scores) score = std::exp(3 * random.normal());
    EXPECT_EQ(share_slots(Layer(5, scores), base), Counts(5, base)) << "base " << base;
  }
}

TEST(Share, TheStrongGetMoreAndTheFaintTheFloor) {
  const HeadScores strong(1000, 1e-3f);
  const HeadScores faint(1000, 1e-7f);
  EXPECT_EQ(share_slots(Layer{faint, strong}, 100), (Counts{20, 180}));
  EXPECT_EQ(share_slots(Layer{strong, faint, faint}, 100), (Counts{260, 20, 20}));
}

TEST(Share, WhatOneCannotUseGoesToTheOthers) {
  const HeadScores strong(1000, 1e-3f);
  EXPECT_EQ(share_slots(Layer{HeadScores(7), strong, strong}, 100), (Counts{7, 267, 26}));
  EXPECT_EQ(share_slots(Layer{HeadScores(7), HeadScores(30)}, 100), (Counts{7, 30}));
}

TEST(Share, KeepsTheWindowOfEveryKvHeadAndStaysInsideTheLayersSlots) {
  Random random(7);
  constexpr int64_t kLength = 300;
  for (const KvShare share : {KvShare::kFlat, KvShare::kAdaptive}) {
    const KvOptions options{.rule = KvRule::kLatent, .budget = 50, .share = share, .window = 8, .kernel = 3};
    std::vector<float> rows(3 * 2 * kLength);
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = std::exp(random.normal()) * (i < 2 * kLength ? 1.0f : 4.0f);  // the first of three kv_heads is faint
    const Counts lengths = {kLength, kLength - 40, 5};                        // the last holds less than the window
    std::vector<GroupScores> heads;
    for (size_t h = 0; h < 3; ++h) {
      heads.push_back({.scores = rows.data() + h * 2 * kLength,
                       .stride = kLength,
                       .group = 2,
                       .slots = std::max<int64_t>(0, lengths[h] - options.window)});
    }
    const std::vector<KeepList> keeps = keep_lists(options, heads, lengths);
    ASSERT_EQ(keeps.size(), 3u);
    EXPECT_TRUE(keeps[2].empty());  // stays whole
    int64_t held = lengths[2];
    for (size_t h = 0; h < 2; ++h) {
      const KeepList& keep = keeps[h];
      held += static_cast<int64_t>(keep.size());
      EXPECT_TRUE(std::is_sorted(keep.begin(), keep.end()));
      for (int64_t i = 1; i <= options.window; ++i)
        EXPECT_EQ(keep[keep.size() - static_cast<size_t>(i)], lengths[h] - i) << kv_share_name(share);
      if (share == KvShare::kFlat) {
        EXPECT_EQ(keep, keep_list(options, heads[h], lengths[h]));
      }
    }
    EXPECT_LE(held, 3 * options.budget);
    if (share == KvShare::kAdaptive) {
      EXPECT_LT(keeps[0].size(), keeps[1].size());
    }
  }
}

}  // namespace
}  // namespace ei::policy
