// The reference against what can be worked out by hand; parity with the released code is tested in tests/golden.
#include "kernels/window_scores/window_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/window_scores/reference/window_scores_reference.h"
#include "support/random_kv.h"

namespace ei::kernels {
namespace {

using Floats = std::vector<float>;

TEST(WindowScores, SumToOneAndRespectPositions) {
  for (const bool compacted : {false, true}) {
    RandomAttention random({.head_dim = 8,
                            .kv_heads = 2,
                            .group = 2,
                            .tokens = 4,
                            .context = 60,
                            .page_slots = 16,
                            .compacted = compacted},
                           11);
    std::vector<float> out(4 * 32);
    const AttentionParams attention = random.params(out.data());
    const std::vector<int32_t> positions = {56, 57, 58, 59};
    Floats scores(4 * 60, 0);
    reference_window_scores({.q = attention.q,
                             .q_stride = attention.q_stride,
                             .positions = positions.data(),
                             .window = 4,
                             .num_heads = 4,
                             .scale = attention.scale,
                             .kv = attention.kv,
                             .scores = scores.data(),
                             .score_stride = 60});
    for (size_t head = 0; head < 4; ++head) {
      const size_t length = static_cast<size_t>(attention.kv.heads[head / 2].length);
      double sum = 0;
      for (size_t slot = 0; slot < length; ++slot) sum += static_cast<double>(scores[head * 60 + slot]);
      EXPECT_NEAR(sum, 1.0, 1e-6);
      EXPECT_GT(scores[head * 60 + length - 1], 0.0f);  // the last query sees the last slot
    }
    // Seen from before everything in the cache, nothing is visible.
    const std::vector<int32_t> before(4, -1);
    reference_window_scores({.q = attention.q,
                             .q_stride = attention.q_stride,
                             .positions = before.data(),
                             .window = 4,
                             .num_heads = 4,
                             .scale = attention.scale,
                             .kv = attention.kv,
                             .scores = scores.data(),
                             .score_stride = 60});
    EXPECT_EQ(scores[0], 0.0f);
  }
}

// Keys alike are attended to alike: ln n over the n slots that a query sees.
TEST(WindowScores, EqualKeysHaveTheEntropyOfTheirNumber) {
  RandomAttention random({.head_dim = 8, .kv_heads = 1, .group = 2, .tokens = 2, .context = 60, .page_slots = 16}, 12);
  const AttentionParams attention = random.params(nullptr);
  const std::vector<int32_t> positions = {9, 39};
  Floats scores(2 * 60);
  Floats entropy(2);
  WindowScoreParams params{.q = attention.q,
                           .q_stride = attention.q_stride,
                           .positions = positions.data(),
                           .window = 2,
                           .num_heads = 2,
                           .scale = 0,  // every product counts the same
                           .kv = attention.kv,
                           .scores = scores.data(),
                           .score_stride = 60,
                           .entropy = entropy.data()};
  reference_window_scores(params);
  for (const float one : entropy) EXPECT_NEAR(one, (std::log(10.0) + std::log(40.0)) / 2, 1e-6);
  params.scale = 1000;  // one slot takes all
  reference_window_scores(params);
  for (const float one : entropy) EXPECT_NEAR(one, 0, 1e-6);
}

}  // namespace
}  // namespace ei::kernels
