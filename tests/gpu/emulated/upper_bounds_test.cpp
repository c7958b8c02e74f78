// Upper bounds of pages, thread by thread on the host, against the reference.
#include "kernels/block_scores/cuda/upper_bounds.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/block_scores/reference/block_scores_reference.h"

namespace ei::kernels::cuda {
namespace {

struct BoundShape {
  int32_t head_dim;
  int32_t kv_heads;
  int32_t group;
  SegmentGrid grid;
  int32_t first_segment;
  int32_t num_segments;
  DType type;
};

void expect_the_references_bounds(const BoundShape& s) {
  const BlockRows rows{.grid = s.grid,
                       .kv_heads = s.kv_heads,
                       .first_segment = s.first_segment,
                       .num_segments = s.num_segments,
                       .stride = int64_t{s.first_segment + s.num_segments} * (s.grid.segment / s.grid.block) + 3};
  const int32_t heads = s.kv_heads * s.group;
  const int64_t blocks = rows.visible(s.num_segments - 1);
  const int64_t width = int64_t{s.kv_heads} * s.head_dim;
  Random random(static_cast<uint64_t>(s.head_dim + s.first_segment));
  std::vector<float> high(static_cast<size_t>(blocks * width));  // room for any type
  std::vector<float> low(high.size());
  for (int64_t at = 0; at < blocks * width; ++at) {
    const float one = random.normal();
    const float other = random.normal();
    store_element(high.data(), s.type, at, std::max(one, other));
    store_element(low.data(), s.type, at, std::min(one, other));
  }
  std::vector<float> queries(static_cast<size_t>(int64_t{s.num_segments} * heads * s.head_dim));
  for (float& one : queries) one = random.normal();
  std::vector<float> expected(static_cast<size_t>(int64_t{s.kv_heads} * s.num_segments * rows.stride), -5);
  std::vector<float> got = expected;
  BlockScoreParams params{.kind = BlockScore::kUpperBound,
                          .rows = rows,
                          .queries = queries.data(),
                          .num_heads = heads,
                          .head_dim = s.head_dim,
                          .keys = {.max_keys = high.data(),
                                   .min_keys = low.data(),
                                   .type = s.type,
                                   .head_stride = s.head_dim,
                                   .block_stride = width},
                          .scale = 0.5f,
                          .scores = expected.data()};
  reference_block_scores(params);
  params.scores = got.data();
  const int64_t tiles = bound_tiles(blocks);
  for (int64_t index = 0; index < tiles * s.kv_heads * s.num_segments; ++index)
    emulated::Block::run(kBoundThreads, [&] { bound_blocks(params, index, tiles); });
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 1e-5 * std::sqrt(static_cast<double>(s.head_dim))) << i;
}

TEST(UpperBounds, AreTheReferencesOverOddShapes) {
  const BoundShape shapes[] = {
      {.head_dim = 64,
       .kv_heads = 2,
       .group = 3,
       .grid = {16, 16},
       .first_segment = 21,
       .num_segments = 1,
       .type = DType::kBF16},
      {.head_dim = 40,
       .kv_heads = 1,
       .group = 1,
       .grid = {4, 4},
       .first_segment = 8,
       .num_segments = 1,
       .type = DType::kF32},
      {.head_dim = 96,
       .kv_heads = 3,
       .group = 1,
       .grid = {24, 24},
       .first_segment = 1,
       .num_segments = 1,
       .type = DType::kF16},
      {.head_dim = 128,
       .kv_heads = 1,
       .group = 7,
       .grid = {32, 8},
       .first_segment = 0,
       .num_segments = 3,
       .type = DType::kBF16},
      {.head_dim = 20,
       .kv_heads = 2,
       .group = 2,
       .grid = {16, 16},
       .first_segment = 7,
       .num_segments = 2,
       .type = DType::kF32},
  };
  for (const BoundShape& shape : shapes) {
    SCOPED_TRACE(shape.head_dim);
    expect_the_references_bounds(shape);
  }
}

TEST(UpperBounds, OfOneKeyAreItsProducts) {
  const std::vector<float> key = {1, -2, 0.5f, 3};
  const std::vector<float> query = {-1, 2, 4, 0};
  float bound = 0;
  const BlockScoreParams params{
      .kind = BlockScore::kUpperBound,
      .rows = {.grid = {1, 1}, .kv_heads = 1, .first_segment = 1, .num_segments = 1, .stride = 1},
      .queries = query.data(),
      .num_heads = 1,
      .head_dim = 4,
      .keys = {.max_keys = const_cast<float*>(key.data()),
               .min_keys = const_cast<float*>(key.data()),
               .head_stride = 4,
               .block_stride = 4},
      .scores = &bound};
  emulated::Block::run(kBoundThreads, [&] { bound_blocks(params, 0, 1); });
  EXPECT_EQ(bound, -3);
}

}  // namespace
}  // namespace ei::kernels::cuda
