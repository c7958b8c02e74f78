// The reference against what can be worked out by hand; parity with the released code is tested in tests/golden.
#include "kernels/block_scores/block_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/block_scores/reference/block_scores_reference.h"
#include "support/random_kv.h"

namespace ei::kernels {
namespace {

using Floats = std::vector<float>;

TEST(Profile, TakesExtremesOfBlocksAcrossPages) {
  RandomAttention random({.head_dim = 3, .kv_heads = 2, .context = 20, .page_slots = 5, .key_type = DType::kF16}, 7);
  Floats max(2 * 4 * 3, -9);
  Floats min(2 * 4 * 3, -9);
  BlockExtremesParams params{.kv = random.view(), .block = 4, .first_block = 1, .num_blocks = 3, .out = {}};
  params.out = {max.data(), min.data(), DType::kF32, 3, 2 * 3};  // [block, kv_head, d]
  reference_block_extremes(params);
  for (int block = 1; block < 4; ++block) {
    const KvHeadView& head = random.view().heads[1];
    float largest = -std::numeric_limits<float>::infinity();
    for (int slot = block * 4; slot < block * 4 + 4; ++slot)
      largest = std::max(largest, load_element(head.key_pages[slot / 5], DType::kF16, (slot % 5) * 3 + 2));
    const size_t at = static_cast<size_t>((block * 2 + 1) * 3 + 2);
    EXPECT_EQ(max[at], largest);
    EXPECT_LE(min[at], max[at]);
  }
  EXPECT_EQ(max[5], -9);  // block 0 was not asked for
}

TEST(Profile, TakesTheMidrangeOfShortAndResumedSegments) {
  const Floats q = {0, 8, 2, 4, 10, 12, 30, 1};
  Floats out(4);
  reference_query_midrange(
      {.q = q.data(), .q_stride = 1, .tokens = 8, .segment = 3, .num_heads = 1, .head_dim = 1, .out = out.data()});
  EXPECT_EQ(out, (Floats{4, 8, 15.5f, 0}));
  reference_query_midrange({.q = q.data(),
                            .q_stride = 1,
                            .tokens = 8,
                            .first_rows = 1,
                            .segment = 3,
                            .num_heads = 1,
                            .head_dim = 1,
                            .out = out.data()});
  EXPECT_EQ(out, (Floats{0, 5, 20, 1}));
}

TEST(Profile, ScoresVisibleBlocksOnlyAndAveragesTheGroup) {
  Floats max = {1, 2, 3, 9};
  Floats min = {-4, 1, 0, 9};
  const Floats queries = {9, 9, 1, -2};  // segments 0 and 1, group of 2, head_dim 1
  Floats scores(2 * 4, -7);
  BlockScoreParams params{.rows = {{.segment = 4, .block = 2}, 1, 0, 2, 4},
                          .queries = queries.data(),
                          .num_heads = 2,
                          .head_dim = 1,
                          .keys = {max.data(), min.data(), DType::kF32, 4, 1},
                          .scale = 0.5f,
                          .scores = scores.data()};
  reference_block_scores(params);
  // Block 0: max(1, -4) and max(-2, 8); block 1: max(2, 1) and max(-4, -2).
  EXPECT_EQ(scores, (Floats{-7, -7, -7, -7, 2.25f, 0, -7, -7}));
}

TEST(Profile, BoundsEveryProductWithAKeyOfTheBlock) {
  // One block, keys (1, -1) and (3, -4); the query (2, -1) has products 3 and 10, and (-1, 1) has -2 and -7.
  Floats max = {3, -1};
  Floats min = {1, -4};
  const Floats queries = {2, -1, -1, 1};
  float bound = 0;
  BlockScoreParams params{.kind = BlockScore::kUpperBound,
                          .rows = {{.segment = 2, .block = 2}, 1, 1, 1, 1},
                          .queries = queries.data(),
                          .num_heads = 2,
                          .head_dim = 2,
                          .keys = {max.data(), min.data(), DType::kF32, 2, 2},
                          .scale = 1,
                          .scores = &bound};
  reference_block_scores(params);
  EXPECT_EQ(bound, (10.0f - 2.0f) / 2) << "the mean over the heads of 2 * 3 + -1 * -4 and -1 * 1 + 1 * -1";
}

TEST(Profile, CountsTheBlocksThatCoverAShare) {
  const BlockRows rows{{.segment = 4, .block = 1}, 1, 1, 1, 4};
  const Floats scores = {std::log(0.1f), std::log(0.5f), std::log(0.1f), std::log(0.3f)};
  float entropy = 0;
  float covering = -1;
  BlockEntropyParams params{.rows = rows, .scores = scores.data(), .entropy = &entropy, .covering = &covering};
  for (const auto& [cover, count] :
       std::vector<std::pair<float, float>>{{0.4f, 1}, {0.6f, 2}, {0.85f, 3}, {0.95f, 4}}) {
    params.cover = cover;
    reference_block_entropy(params);
    EXPECT_EQ(covering, count) << cover;
  }
}

TEST(Profile, GivesTheEntropyOfFlatSharpAndFusedRows) {
  const BlockRows rows{{.segment = 4, .block = 1}, 1, 1, 1, 4};
  Floats probabilities(4);
  float entropy = -1;
  BlockEntropyParams params{
      .rows = rows, .scores = nullptr, .previous = nullptr, .probabilities = probabilities.data(), .entropy = &entropy};
  const Floats flat = {3, 3, 3, 3};
  params.scores = flat.data();
  reference_block_entropy(params);
  EXPECT_NEAR(entropy, std::log(4.0f), 1e-6f);

  const Floats sharp = {500, 0, 0, -500};
  params.scores = sharp.data();
  reference_block_entropy(params);
  EXPECT_EQ(entropy, 0.0f);
  EXPECT_EQ(probabilities, (Floats{1, 0, 0, 0}));

  const Floats previous = {0, 0, 0, 1};
  params.previous = previous.data();
  reference_block_entropy(params);
  EXPECT_EQ(probabilities, (Floats{0.75f, 0, 0, 0.25f}));
  EXPECT_NEAR(entropy, -0.75f * std::log(0.75f) - 0.25f * std::log(0.25f), 1e-6f);
}

}  // namespace
}  // namespace ei::kernels
