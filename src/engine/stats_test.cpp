#include "engine/stats.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ei {
namespace {

TEST(Stats, PairsOfDenseAttentionAreCountedRowByRow) {
  for (const int64_t window : {0, 1, 5, 64}) {
    for (const int64_t first : {0, 3, 100}) {
      for (const int64_t tokens : {1, 7, 130}) {
        double expected = 0;
        for (int64_t row = first; row < first + tokens; ++row)
          expected += static_cast<double>(window == 0 ? row + 1 : std::min(row + 1, window));
        EXPECT_EQ(causal_pairs(first, tokens, window), expected) << window << " " << first << " " << tokens;
      }
    }
  }
}

TEST(Stats, PairsAddUpOverLayersAndHeads) {
  model::Config config;
  config.kv_heads = 3;
  config.per_layer.resize(2);
  config.per_layer[1].window = 4;
  EXPECT_EQ(dense_pairs(config, 0, 10), 3 * (causal_pairs(0, 10, 0) + causal_pairs(0, 10, 4)));
}

}  // namespace
}  // namespace ei
