#include "policy/kv/head_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace ei::policy {
namespace {

using Counts = std::vector<int64_t>;
using Layer = std::vector<SlotScores>;

int64_t sum(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// kv_heads of very different sharpness and length, some without any score.
Layer random_layer(Random& random, int64_t heads, int64_t most_slots) {
  Layer layer;
  for (int64_t h = 0; h < heads; ++h) {
    SlotScores& scores = layer.emplace_back(static_cast<size_t>(random.below(most_slots + 1)));
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
    for (const SlotScores& scores : layer) held += static_cast<int64_t>(scores.size());
    SCOPED_TRACE(::testing::Message() << "round " << round << " base " << base);
    const Counts counts = share_slots({}, layer, base);
    ASSERT_EQ(counts.size(), layer.size());
    ASSERT_EQ(counts, share_slots({}, layer, base));
    ASSERT_EQ(sum(counts), std::min(held, heads * base));
    for (size_t h = 0; h < layer.size(); ++h) {
      const auto size = static_cast<int64_t>(layer[h].size());
      ASSERT_LE(counts[h], size);
      const auto floor = static_cast<int64_t>(KvOptions().floor_share * static_cast<double>(base));
      ASSERT_GE(counts[h], std::min(floor, size));
    }
  }
}

TEST(Share, AlikeKvHeadsGetTheFlatBudget) {
  Random random(6);
  for (const int64_t base : {1, 7, 63, 128, 480, 992}) {
    SlotScores scores(1500);
    for (float& score : scores) score = std::exp(3 * random.normal());
    EXPECT_EQ(share_slots({}, Layer(5, scores), base), Counts(5, base)) << "base " << base;
  }
}

TEST(Share, TheStrongGetMoreAndTheFaintTheFloor) {
  const SlotScores strong(1000, 1e-3f);
  const SlotScores faint(1000, 1e-7f);
  EXPECT_EQ(share_slots({}, Layer{faint, strong}, 100), (Counts{20, 180}));
  EXPECT_EQ(share_slots({}, Layer{strong, faint, faint}, 100), (Counts{260, 20, 20}));
}

TEST(Share, WhatOneCannotUseGoesToTheOthers) {
  const SlotScores strong(1000, 1e-3f);
  EXPECT_EQ(share_slots({}, Layer{SlotScores(7), strong, strong}, 100), (Counts{7, 272, 21}));
  EXPECT_EQ(share_slots({}, Layer{SlotScores(7), SlotScores(30)}, 100), (Counts{7, 30}));
}

TEST(Share, ReleasedRoundingIsEachSetsOwn) {
  KvOptions released{.rounding = KvRounding::kReleased};
  released.floor_share = 0.5;
  const Layer layer = {SlotScores(10, 3.0f), SlotScores(10, 2.0f), SlotScores(10, 1.0f)};
  // Of 15 the best 10 and 5: halves of them on a floor of 2, and 4.5 is rounded to 4.
  EXPECT_EQ(share_slots(released, layer, 5), (Counts{7, 4, 2}));
  released.rounding = KvRounding::kExact;
  EXPECT_EQ(sum(share_slots(released, layer, 5)), 15);
}

}  // namespace
}  // namespace ei::policy
