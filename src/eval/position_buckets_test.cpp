#include "eval/position_buckets.h"

#include <gtest/gtest.h>

#include <utility>

namespace ei::eval {
namespace {

using Range = std::pair<int64_t, int64_t>;

std::vector<Range> ranges(const PositionBuckets& buckets) {
  std::vector<Range> all;
  for (const PositionBucket& bucket : buckets.all()) all.emplace_back(bucket.first, bucket.end);
  return all;
}

TEST(PositionBuckets, DivideARangeEvenlyAndLeaveNothingOut) {
  EXPECT_EQ(ranges(PositionBuckets::even(10, 20, 2)), (std::vector<Range>{{10, 15}, {15, 20}}));
  EXPECT_EQ(ranges(PositionBuckets::even(0, 10, 3)), (std::vector<Range>{{0, 3}, {3, 6}, {6, 10}}));
  EXPECT_EQ(ranges(PositionBuckets::even(5, 7, 8)), (std::vector<Range>{{5, 6}, {6, 7}}));
  EXPECT_TRUE(PositionBuckets::even(5, 5, 8).all().empty());
}

TEST(PositionBuckets, GrowWithTheDistanceFromAPrompt) {
  EXPECT_EQ(ranges(PositionBuckets::doubling(100, 400, 32)),
            (std::vector<Range>{{100, 132}, {132, 164}, {164, 228}, {228, 356}, {356, 400}}));
  EXPECT_EQ(ranges(PositionBuckets::doubling(0, 8, 32)), (std::vector<Range>{{0, 8}}));
}

TEST(PositionBuckets, HoldTheRowsOfTheirPositions) {
  PositionBuckets buckets = PositionBuckets::even(0, 4, 2);
  const std::vector<float> one = {2.0F, 0.0F};
  const std::vector<float> other = {0.0F, 2.0F};
  buckets.add(0, one, one, false);
  buckets.add(1, one, one, true);
  buckets.add(2, one, other, true);
  buckets.add(3, one, one, true);
  const PositionBucket& near = buckets.all()[0];
  EXPECT_EQ(near.divergence.kl().count(), 2);
  EXPECT_EQ(near.divergence.kl().mean(), 0);
  EXPECT_EQ(near.divergence.same_top().mean(), 1);
  EXPECT_EQ(near.compressed, 1);
  const PositionBucket& far = buckets.all()[1];
  EXPECT_EQ(far.divergence.same_top().mean(), 0.5);
  EXPECT_EQ(far.compressed, 2);
  // KL of (a, b) to (b, a) is (a - b) * 2 nats; a - b = tanh(1).
  EXPECT_NEAR(far.divergence.kl().mean(), 0.7615941559557649, 1e-12);
}

}  // namespace
}  // namespace ei::eval
