// Counts of covering blocks, thread by thread on the host, against the reference.
#include "kernels/block_scores/cuda/covering.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/random.h"
#include "kernels/block_scores/reference/block_scores_reference.h"

namespace ei::kernels::cuda {
namespace {

int64_t counted(const float* row, int64_t size, float cover) {
  const auto shared = std::make_unique<CoverShared>();
  std::vector<int64_t> counts(kCoverThreads, -1);
  emulated::Block::run(kCoverThreads, [&] {
    counts[threadIdx.x] = count_covering(*shared, size, cover, [&](int64_t i) { return row[i]; });
  });
  for (const int64_t one : counts) EXPECT_EQ(one, counts.front());
  return counts.front();
}

// Of every row.
void expect_as_reference(const BlockRows& rows, const std::vector<float>& scores, float cover) {
  const auto lists = static_cast<size_t>(rows.kv_heads * rows.num_segments);
  std::vector<float> probabilities(scores.size());
  std::vector<float> entropy(lists);
  std::vector<float> expected(lists);
  reference_block_entropy({.rows = rows,
                           .scores = scores.data(),
                           .probabilities = probabilities.data(),
                           .entropy = entropy.data(),
                           .covering = expected.data(),
                           .cover = cover});
  for (int32_t h = 0; h < rows.kv_heads; ++h)
    for (int32_t i = 0; i < rows.num_segments; ++i)
      EXPECT_EQ(counted(probabilities.data() + rows.offset(h, i), rows.visible(i), cover),
                static_cast<int64_t>(expected[static_cast<size_t>(rows.list(h, i))]))
          << "kv_head " << h << ", " << rows.visible(i) << " blocks, share " << cover;
}

TEST(Covering, IsTheReferencesOverOddShapes) {
  Random random(11);
  for (const int32_t first : {0, 86, 341}) {  // 0 and 3, 258 and 261, 1023 and 1026 blocks
    const BlockRows rows{.grid = {.segment = 48, .block = 16},
                         .kv_heads = 1,
                         .first_segment = first,
                         .num_segments = 2,
                         .stride = (first + 2) * int64_t{3}};
    for (const float sharpness : {0.1f, 2.0f, 9.0f}) {  // flat, usual, and most of them next to nothing
      std::vector<float> scores(static_cast<size_t>(rows.kv_heads * rows.num_segments * rows.stride));
      for (float& score : scores) score = sharpness * random.normal();
      for (const float cover : {0.3f, 0.95f}) expect_as_reference(rows, scores, cover);
    }
  }
}

TEST(Covering, OfEqualsTakesAsManyAsAreNeeded) {
  const std::vector<float> quarters(4, 0.25f);
  EXPECT_EQ(counted(quarters.data(), 4, 0.5f), 2);
  EXPECT_EQ(counted(quarters.data(), 4, 0.51f), 3);
  EXPECT_EQ(counted(quarters.data(), 4, 1), 4);
  const BlockRows rows{
      .grid = {.segment = 8, .block = 8}, .kv_heads = 1, .first_segment = 700, .num_segments = 1, .stride = 700};
  std::vector<float> scores(700, 1.0f);
  for (size_t i = 0; i < scores.size(); i += 9) scores[i] = 4;
  for (const float cover : {0.3f, 0.7f, 0.95f}) expect_as_reference(rows, scores, cover);
}

TEST(Covering, IsEverythingWhereTheShareIsOutOfReachAndNothingOfNothing) {
  const std::vector<float> row = {0.2f, 0, 0.1f, 1e-30f};
  EXPECT_EQ(counted(row.data(), 4, 0.9f), 4);
  EXPECT_EQ(counted(row.data(), 0, 0.9f), 0);
  EXPECT_EQ(counted(row.data(), 4, 0), 0);
  EXPECT_EQ(counted(row.data(), 4, 0.2f), 1);
  EXPECT_EQ(counted(row.data(), 4, 0.25f), 2);
}

}  // namespace
}  // namespace ei::kernels::cuda
