#include "policy/kv/ranking.h"

#include <gtest/gtest.h>

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

TEST(Ranking, UnitesWhatEitherKeeps) {
  EXPECT_EQ(union_of({0, 3, 9}, {1, 3, 4}), (KeepList{0, 1, 3, 4, 9}));
  EXPECT_EQ(union_of({}, {2}), KeepList{2});
}

}  // namespace
}  // namespace ei::policy
