// Grids at their edges: nothing to see yet, and more lists than a grid has rows.
#include <gtest/gtest.h>

#include "gpu/engine/rated_chunk.h"

namespace ei::testing {
namespace {

struct CudaEdges : ::testing::TestWithParam<const char*> {
  void SetUp() override { EI_NEEDS_GPU(); }
};
INSTANTIATE_TEST_SUITE_P(Kernels, CudaEdges, ::testing::Values("", "portable", "plain"),
                         [](const auto& test) { return *test.param != 0 ? test.param : "fastest"; });

TEST_P(CudaEdges, TheFirstSegmentAloneIsRated) {
  RatedChunk chunk("cuda", {.before = 0, .tokens = 64}, GetParam());
  ASSERT_EQ(chunk.rows.num_segments, 1);
  ASSERT_EQ(chunk.rows.visible(0), 0);
  for (const bool sampled : {false, true}) {
    const std::vector<BlockRanking> rankings(
        static_cast<size_t>(chunk.lists),
        {.latest = sampled, .queries = GroupQuery::kEach, .sampling = sampled ? Sampling::kHeads : Sampling::kNone});
    std::vector<AttentionSample> samples;
    for (const float score : chunk.rate(rankings, sampled, samples)) EXPECT_EQ(score, -5.0f) << "there is no block";
    if (!sampled) continue;
    for (const AttentionSample& sample : samples) EXPECT_EQ(sample.far, 0.0f);
  }
}

// Lists of kv_heads by segments; critiprefill in short segments of a long chunk has as many.
TEST(CudaMidrange, TakesMoreListsThanAGridHasRows) {
  EI_NEEDS_GPU();
  constexpr int32_t kHeads = 2048;
  constexpr int32_t kSegments = 33;
  constexpr int32_t kDim = 8;
  const kernels::BlockRows rows{
      .grid = {8, 8}, .kv_heads = kHeads, .first_segment = 0, .num_segments = kSegments, .stride = kSegments};
  const int64_t lists = int64_t{kHeads} * kSegments;
  ASSERT_GT(lists, 65535);
  const int64_t width = int64_t{kHeads} * kDim;
  std::vector<float> results[2];
  int at = 0;
  for (const char* name : {"cuda", "reference"}) {
    const Side side(name);
    const Matrix high = side.put(0, normals(kSegments * width, 1), kSegments, width);
    const Matrix low = side.put(1, normals(kSegments * width, 2), kSegments, width);
    const Matrix queries = side.put(2, normals(kSegments * width, 3), kSegments, width);
    const Matrix scores = side.put(3, std::vector<float>(static_cast<size_t>(lists * kSegments), 0), lists, kSegments);
    side.stream->block_scores({.rows = rows,
                               .queries = queries.data,
                               .num_heads = kHeads,
                               .head_dim = kDim,
                               .keys = {.max_keys = high.data,
                                        .min_keys = low.data,
                                        .type = DType::kF32,
                                        .head_stride = kDim,
                                        .block_stride = width},
                               .scores = scores.data});
    results[at++] = side.get(scores);
  }
  EXPECT_LE(relative_error(results[0], results[1]), 1e-5);
}

// A segment of one token each: as many rows of a grid as tokens.
TEST(CudaMidrange, TakesMoreSegmentsThanAGridHasRows) {
  EI_NEEDS_GPU();
  constexpr int64_t kTokens = 70000;
  constexpr int32_t kDim = 8;
  std::vector<float> results[2];
  int at = 0;
  for (const char* name : {"cuda", "reference"}) {
    const Side side(name);
    const Matrix q = side.put(0, normals(kTokens * kDim, 1), kTokens, kDim);
    const Matrix middle = side.stream->scratch(kSlots[1], kTokens, kDim).value();
    side.stream->query_midrange({.q = q.data,
                                 .q_stride = q.stride,
                                 .tokens = kTokens,
                                 .segment = 1,
                                 .num_heads = 1,
                                 .head_dim = kDim,
                                 .out = middle.data});
    results[at++] = side.get(middle);
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace ei::testing
