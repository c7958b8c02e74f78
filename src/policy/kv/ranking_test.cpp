#include "policy/kv/ranking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ei::policy {
namespace {

using Floats = std::vector<float>;

Floats pooled(const Floats& scores, Pooling pooling, int32_t kernel) {
  Floats out(scores.size());
  pool_scores(scores, pooling, kernel, out);
  return out;
}

TEST(Ranking, AveragesWithZerosOutsideAndTheWholeKernelBelow) {
  EXPECT_EQ(pooled({3, 6, 9, 12}, Pooling::kAverage, 3), (Floats{3, 6, 9, 7}));
  EXPECT_EQ(pooled({5}, Pooling::kAverage, 5), Floats{1});
}

TEST(Ranking, TakesTheMaximumOfNegativeScoresToo) {
  EXPECT_EQ(pooled({-3, -6, -9, -1}, Pooling::kMax, 3), (Floats{-3, -3, -1, -1}));
}

TEST(Ranking, AggregatesAGroupByMeanOrMaximum) {
  const Floats rows = {1, 8, 99, 3, 2, 99};
  const GroupScores scores{.scores = rows.data(), .stride = 3, .group = 2, .slots = 2};
  Floats out(2);
  aggregate_group(scores, GroupAggregate::kMean, out);
  EXPECT_EQ(out, (Floats{2, 5}));
  aggregate_group(scores, GroupAggregate::kMax, out);
  EXPECT_EQ(out, (Floats{3, 8}));
}

TEST(Ranking, KeepsTheBestTheLowerOfEqualsAndTheRecent) {
  EXPECT_EQ(keep_best_and_recent(Floats{1, 5, 5, 5, 0}, 2, 7), (KeepList{1, 2, 5, 6}));
  EXPECT_EQ(keep_best_and_recent(Floats{1, 2}, 0, 3), (KeepList{2}));
}

TEST(Ranking, GivesAShareToKeysAmongThoseThatAttentionLeaves) {
  const Floats scores = {9, 1, 8, 2, 7, 0};
  const Floats keys = {5, 4, 6, 1, 2, 3, 99};  // of the latest, which stay anyway, nobody asks
  const auto keep = [&](double share, int64_t count, int32_t sinks = 0) {
    return keep_best_of_both_and_recent({.key_share = share, .sinks = sinks}, scores, keys, count, 7);
  };
  EXPECT_EQ(keep(0.5, 4), (KeepList{0, 1, 2, 5, 6}))
      << "0 and 2 by scores, 1 and 5 by keys, although 0 and 2 have more";
  EXPECT_EQ(keep(0.25, 4), (KeepList{0, 1, 2, 4, 6}));
  EXPECT_EQ(keep(0.9, 1), (KeepList{2, 6})) << "a whole number of slots";
  EXPECT_EQ(keep(0.9, 1, 1), (KeepList{0, 6})) << "sinks come first";
  EXPECT_EQ(keep(0.5, 20), (KeepList{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(keep_best_of_both_and_recent({.key_share = 0.5}, {}, {}, 4, 2), (KeepList{0, 1}));
}

TEST(Ranking, SpreadIsTheNumberOfEqualsThatHaveTheSameEntropy) {
  EXPECT_NEAR(spread_of(Floats{9, 9, 2, 2, 2}, 2), 3, 1e-6) << "the first two do not count";
  EXPECT_NEAR(spread_of(Floats{0.5f, 0, 0.25f, 0.25f}, 0), std::sqrt(8.0), 1e-6);
  EXPECT_EQ(spread_of(Floats{0, 0}, 0), 0);
  EXPECT_EQ(spread_of(Floats{1, 2}, 5), 0);
  EXPECT_EQ(spread_of({}, 0), 0);
}

TEST(Ranking, GivesKeysWhatAttentionDoesNotSpreadOver) {
  const KvOptions options{.key_share = 0.5, .attended = 2, .sinks = 3};
  EXPECT_EQ(count_by_keys(options, 100, 10), 50) << "no more than their share";
  EXPECT_EQ(count_by_keys(options, 100, 30.1), 39);
  EXPECT_EQ(count_by_keys(options, 100, 50), 0);
  EXPECT_EQ(count_by_keys(options, 100, 1e30), 0);
  EXPECT_EQ(count_by_keys(options, 5, 0), 2) << "sinks come first";
  // Attention spreads over two of those that count, so four stay for it; without a say of the spread three do.
  const Floats scores = {9, 9, 9, 9, 3, 0, 3, 0, 0, 0};
  const Floats keys = {0, 0, 0, 0, 0, 1, 0, 2, 4, 3};
  EXPECT_EQ(keep_best_of_both_and_recent({.key_share = 0.5, .attended = 2}, scores, keys, 6, 10),
            (KeepList{0, 1, 2, 3, 8, 9}));
  EXPECT_EQ(keep_best_of_both_and_recent({.key_share = 0.5}, scores, keys, 6, 10), (KeepList{0, 1, 2, 7, 8, 9}));
}

TEST(Ranking, UnitesWhatEitherKeeps) {
  EXPECT_EQ(union_of({0, 3, 9}, {1, 3, 4}), (KeepList{0, 1, 3, 4, 9}));
  EXPECT_EQ(union_of({}, {2}), KeepList{2});
}

}  // namespace
}  // namespace ei::policy
