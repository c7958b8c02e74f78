#include "base/top_indices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace ei {
namespace {

std::vector<int32_t> top(const std::vector<float>& values, int64_t count) {
  std::vector<uint64_t> scratch;
  std::vector<int32_t> out;
  append_top_indices(values, count, scratch, out);
  return out;
}

TEST(TopIndices, BreakTiesByTheLowerIndex) {
  EXPECT_EQ(top({1, 3, 3, 2, 3}, 2), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(top({0, 0, 0, 0}, 3), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(top({-0.0f, 0.0f, -1}, 1), (std::vector<int32_t>{0}));
}

TEST(TopIndices, RankNotANumberLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(top({nan, -inf, 1, -nan}, 2), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(top({nan, nan}, 1), (std::vector<int32_t>{0}));
}

TEST(TopIndices, GiveWhatThereIs) {
  EXPECT_TRUE(top({1, 2}, 0).empty());
  EXPECT_TRUE(top({}, 5).empty());
  EXPECT_EQ(top({1, 2}, 5), (std::vector<int32_t>{0, 1}));
}

TEST(TopIndices, EqualAStableSort) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<float> values(static_cast<size_t>(random.between(1, 300)));
    for (float& value : values) value = static_cast<float>(random.between(-9, 9));  // many ties
    const int64_t count = random.between(0, static_cast<int64_t>(values.size()));
    std::vector<int32_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
    });
    order.resize(static_cast<size_t>(count));
    std::sort(order.begin(), order.end());
    EXPECT_EQ(top(values, count), order);
  }
}

}  // namespace
}  // namespace ei
