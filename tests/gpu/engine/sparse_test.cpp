// What a sparse prefill measures and chooses on the GPU, against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "gpu/engine/rated_chunk.h"
#include "kernels/block_scores/cuda/rating_cuda.h"

namespace ei::testing {
namespace {

using kernels::BlockRows;

std::vector<RatedShape> shapes() {
  std::vector<RatedShape> list;
  for (const int32_t head_dim : {64, 96, 128, 256}) list.push_back({.head_dim = head_dim});
  list.push_back({.type = DType::kF16, .head_dim = 128, .group = 4, .grid = {128, 16}, .before = 4096, .tokens = 256});
  list.push_back({.head_dim = 128, .kv_heads = 1, .group = 1, .grid = {64, 32}, .before = 1280, .tokens = 64});
  list.push_back({.head_dim = 64, .group = 2, .grid = {512, 8}, .before = 5632, .tokens = 600});
  list.push_back({.type = DType::kF32, .head_dim = 40, .grid = {48, 8}, .before = 480, .tokens = 90});
  list.push_back({.head_dim = 64, .grid = {64, 64}, .before = 1024, .tokens = 128});
  return list;
}

std::vector<RatedShape> rated_shapes() {
  std::vector<RatedShape> list = shapes();
  for (const int32_t head_dim : {64, 128}) list.push_back({.type = DType::kF8, .head_dim = head_dim, .group = 2});
  return list;
}

// The same chunk by the reference, which reads a cache in fp8 as its rows in f16.
RatedChunk reference_of(const RatedChunk& ours) {
  RatedShape shape = ours.s;
  shape.type = host_type(shape.type);
  RatedChunk reference("reference", shape, "");
  if (shape.type != ours.s.type) reference.take_rows_of(ours);
  return reference;
}

struct CudaRating : ::testing::TestWithParam<const char*> {
  void SetUp() override { EI_NEEDS_GPU(); }
};
INSTANTIATE_TEST_SUITE_P(Kernels, CudaRating, ::testing::Values("", "portable", "plain"),
                         [](const auto& test) { return *test.param != 0 ? test.param : "fastest"; });

bool plain(const char* kernels) { return std::string_view(kernels) == "plain"; }
bool slow(const RatedShape& s, const char* kernels) { return plain(kernels) && s.before > 5000; }

// Tensor cores round queries and keys to 8 bits, as the CPU's kernels do: the same distances are allowed.
bool rounds(const char* kernels) { return !plain(kernels); }

TEST_P(CudaRating, SamplesAreTheReferences) {
  for (const RatedShape& s : rated_shapes()) {
    if (slow(s, GetParam())) continue;
    for (const Sampling sampling : {Sampling::kMean, Sampling::kHeads}) {
      SCOPED_TRACE(::testing::Message() << name_of(s) << " sampling " << static_cast<int>(sampling));
      RatedChunk ours("cuda", s, GetParam());
      RatedChunk reference = reference_of(ours);
      const std::vector<BlockRanking> rankings(static_cast<size_t>(ours.lists), {.latest = true, .sampling = sampling});
      std::vector<AttentionSample> samples;
      std::vector<AttentionSample> expected;
      ours.rate(rankings, true, samples);
      reference.rate(rankings, true, expected);
      const float share = rounds(GetParam()) ? 0.03f : 0.01f;
      const float entropy = rounds(GetParam()) ? 0.03f : 0.02f;
      for (size_t i = 0; i < samples.size(); ++i) {
        EXPECT_NEAR(samples[i].sink, expected[i].sink, share) << i;
        EXPECT_NEAR(samples[i].far, expected[i].far, share) << i;
        EXPECT_NEAR(samples[i].distant, expected[i].distant, share) << i;
        EXPECT_NEAR(samples[i].segment_entropy, expected[i].segment_entropy, entropy) << i;
        EXPECT_NEAR(samples[i].row_entropy, expected[i].row_entropy, entropy) << i;
      }
    }
  }
}

// Rankings of all kinds side by side. Where rows or candidates are chosen, near ties may fall otherwise.
TEST_P(CudaRating, ScoresAreTheReferences) {
  for (const RatedShape& s : rated_shapes()) {
    if (slow(s, GetParam())) continue;
    SCOPED_TRACE(name_of(s));
    RatedChunk ours("cuda", s, GetParam());
    RatedChunk reference = reference_of(ours);
    const int32_t some = s.grid.segment / 3;
    const auto candidates = static_cast<int32_t>(s.before / s.grid.block / 2);
    const std::vector<BlockRanking> kinds = {
        {.queries = GroupQuery::kEach},
        {.rows = some, .queries = GroupQuery::kEach},
        {.rows = some, .candidates = candidates, .queries = GroupQuery::kMean},
        {.queries = GroupQuery::kLeastLocal},
        {.latest = true},
        {.rows = some, .candidates = candidates, .queries = GroupQuery::kEach},
        {.rows = some, .queries = GroupQuery::kLeastLocal},
        {.candidates = candidates, .queries = GroupQuery::kEach},
        {.rows = s.grid.segment, .candidates = candidates, .queries = GroupQuery::kMean},  // all rows
    };
    for (size_t shift = 0; shift<kinds.size(); shift += s.before> 5000 ? 4 : 2) {
      std::vector<BlockRanking> rankings;
      for (size_t i = 0; i < static_cast<size_t>(ours.lists); ++i)
        rankings.push_back(kinds[(i + shift) % kinds.size()]);
      std::vector<AttentionSample> unused;
      const std::vector<float> scores = ours.rate(rankings, false, unused);
      const std::vector<float> expected = reference.rate(rankings, false, unused);
      int64_t far_off = 0;
      int64_t rated = 0;
      for (int32_t h = 0; h < s.kv_heads; ++h) {
        for (int32_t i = 0; i < ours.rows.num_segments; ++i) {
          const BlockRanking& ranking = rankings[static_cast<size_t>(ours.rows.list(h, i))];
          const int64_t begin = ours.rows.offset(h, i);
          for (int64_t j = 0; j < ours.rows.stride; ++j) {
            const float score = scores[static_cast<size_t>(begin + j)];
            const float wanted = expected[static_cast<size_t>(begin + j)];
            if (j >= ours.rows.visible(i)) {
              EXPECT_EQ(score, -5.0f) << "behind the row";
              continue;
            }
            ++rated;
            const bool unrated = score < -1e6f && wanted < -1e6f;
            const bool near = unrated || std::abs(score - wanted) < (rounds(GetParam()) ? 0.2f : 0.1f);
            if (!near) ++far_off;
            if (!near && ranking.rows == 0 && ranking.candidates == 0)
              ADD_FAILURE() << "kv_head " << h << ", segment " << i << ", block " << j << ": " << score << ", expected "
                            << wanted;
            if (::testing::Test::HasFailure()) return;
          }
        }
      }
      constexpr double kTies = 2;
      EXPECT_LE(static_cast<double>(far_off), kTies + 0.04 * static_cast<double>(rated)) << "shift " << shift;
    }
  }
}

// Which segments fit beside each other is a matter of memory alone.
TEST_P(CudaRating, IsTheSameInRounds) {
  struct Limit {
    explicit Limit(size_t bytes) { kernels::cuda::rate_together_in(bytes); }
    ~Limit() { kernels::cuda::rate_together_in(0); }
  };
  for (const RatedShape& s : {shapes()[0], shapes()[4], RatedShape{.type = DType::kF8, .head_dim = 128}}) {
    SCOPED_TRACE(name_of(s));
    RatedChunk chunk("cuda", s, GetParam());
    const auto candidates = static_cast<int32_t>(s.before / s.grid.block / 2);
    const std::vector<BlockRanking> kinds = {
        {.rows = s.grid.segment / 3, .candidates = candidates, .queries = GroupQuery::kEach},
        {.queries = GroupQuery::kLeastLocal},
        {.latest = true},
        {.candidates = candidates, .queries = GroupQuery::kMean}};
    std::vector<BlockRanking> rankings;
    for (size_t i = 0; i < static_cast<size_t>(chunk.lists); ++i) rankings.push_back(kinds[i % kinds.size()]);
    const std::vector<BlockRanking> sampled(rankings.size(), {.latest = true, .sampling = Sampling::kHeads});
    std::vector<AttentionSample> samples;
    std::vector<AttentionSample> unused;
    chunk.rate(sampled, true, samples);
    const std::vector<float> scores = chunk.rate(rankings, false, unused);
    // One by one, and some of four together.
    for (const size_t bytes : {size_t{1}, size_t{300} << 10, size_t{500} << 10}) {
      SCOPED_TRACE(bytes);
      const Limit limit(bytes);
      std::vector<AttentionSample> in_rounds;
      chunk.rate(sampled, true, in_rounds);
      EXPECT_EQ(std::memcmp(in_rounds.data(), samples.data(), samples.size() * sizeof(AttentionSample)), 0);
      EXPECT_EQ(chunk.rate(rankings, false, unused), scores);
    }
  }
}

TEST(CudaSelect, ListsAreTheReferences) {
  EI_NEEDS_GPU();
  for (const int32_t first : {0, 3, 40}) {
    const BlockRows rows{.grid = {512, 8},
                         .kv_heads = 3,
                         .first_segment = first,
                         .num_segments = 5,
                         .stride = (first + 5) * int64_t{64}};
    const int64_t lists = 15;
    std::vector<float> values = normals(lists * rows.stride, 7);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % 3 == 0) values[i] = std::round(values[i]);  // ties
      if (i % 11 == 0) values[i] = -3e38f;
      if (i % 501 == 0) values[i] = -0.0f;
    }
    std::vector<int32_t> counts;
    Random random(9);
    for (int32_t list = 0; list < lists; ++list) {
      const auto visible = static_cast<int32_t>(rows.visible(list % 5));
      counts.push_back(list % 5 == 1 ? -1 : list == 2 ? visible : static_cast<int32_t>(random.below(visible + 1)));
    }
    BlockPlan plans[2];
    int at = 0;
    for (const char* name : {"cuda", "reference"}) {
      const Side side(name);
      BlockPlan& plan = plans[at++];
      plan.grid = rows.grid;
      plan.kv_heads = 3;
      plan.first_segment = first;
      plan.num_segments = 5;
      plan.dense = {0, 1, 0, 0, 0};
      plan.offsets.assign(1, 0);
      for (const int32_t count : counts) plan.offsets.push_back(plan.offsets.back() + std::max(count, 0));
      plan.blocks.assign(static_cast<size_t>(plan.offsets.back()), -7);
      auto* shared = reinterpret_cast<int32_t*>(side.stream->shared(kSlots[0], lists).value());
      std::copy(counts.begin(), counts.end(), shared);
      const Matrix scores = side.put(0, values, lists, rows.stride);
      side.stream->select_blocks({.rows = rows, .values = scores.data, .plan = &plan, .counts = shared});
      ASSERT_TRUE(side.stream->synchronize().ok());
    }
    EXPECT_EQ(plans[0].blocks, plans[1].blocks) << "first segment " << first;
  }
}

TEST(CudaBounds, AreTheReferences) {
  EI_NEEDS_GPU();
  std::vector<RatedShape> pages;
  for (const int32_t head_dim : {64, 96, 128, 256}) pages.push_back({.head_dim = head_dim, .grid = {16, 16}});
  pages.push_back({.type = DType::kF16, .head_dim = 128, .group = 8, .grid = {32, 32}, .before = 4096, .tokens = 1});
  pages.push_back({.type = DType::kF32, .head_dim = 40, .kv_heads = 1, .grid = {4, 4}, .before = 480, .tokens = 9});
  for (const RatedShape& s : pages) {
    SCOPED_TRACE(name_of(s));
    for (const DType type : {DType::kF32, kernels::extremes_type(host_type(s.type))}) {
      std::vector<float> bounds[2];
      int at = 0;
      for (const char* name : {"cuda", "reference"}) {
        RatedChunk chunk(name, s, "");
        Stream& stream = *chunk.side.stream;
        const int64_t blocks = s.before / s.grid.block;
        const int64_t width = int64_t{s.kv_heads} * s.head_dim;
        const std::vector<float> zeros(static_cast<size_t>(blocks * width), 0);
        const kernels::BlockExtremes keys{.max_keys = chunk.side.put(10, zeros, blocks, width).data,
                                          .min_keys = chunk.side.put(11, zeros, blocks, width).data,
                                          .type = type,
                                          .head_stride = s.head_dim,
                                          .block_stride = width};
        stream.block_extremes(
            {.kv = chunk.store.view(0), .block = s.grid.block, .first_block = 0, .num_blocks = blocks, .out = keys});
        const BlockRows rows{.grid = s.grid,
                             .kv_heads = s.kv_heads,
                             .first_segment = static_cast<int32_t>(blocks),
                             .num_segments = 1,
                             .stride = blocks + 5};
        const Matrix scores = chunk.side.put(12, std::vector<float>(static_cast<size_t>(s.kv_heads * rows.stride), -5),
                                             s.kv_heads, rows.stride);
        stream.block_scores({.kind = kernels::BlockScore::kUpperBound,
                             .rows = rows,
                             .queries = chunk.q.data,
                             .num_heads = chunk.heads(),
                             .head_dim = s.head_dim,
                             .keys = keys,
                             .scale = 1,
                             .scores = scores.data});
        bounds[at++] = chunk.side.get(scores);
      }
      EXPECT_LE(relative_error(bounds[0], bounds[1]), 1e-4);
    }
  }
}

// From the same scores, with the probabilities of a layer before and without, kept and not.
TEST(CudaCovering, CountsAreTheReferences) {
  EI_NEEDS_GPU();
  for (const int32_t first : {0, 1, 63, 341}) {
    const BlockRows rows{
        .grid = {128, 128}, .kv_heads = 3, .first_segment = first, .num_segments = 5, .stride = first + 9};
    const int64_t lists = 15;
    for (const float sharpness : {0.1f, 2.0f, 9.0f}) {
      for (const int fused : {0, 1, 2}) {
        for (const float cover : {0.3f, 0.95f}) {
          SCOPED_TRACE(::testing::Message()
                       << first << " blocks, " << sharpness << ", fused " << fused << ", " << cover);
          std::vector<float> counts[2];
          int at = 0;
          for (const char* name : {"cuda", "reference"}) {
            const Side side(name);
            const Matrix scores = side.put(0, normals(lists * rows.stride, 5, sharpness), lists, rows.stride);
            const auto even = static_cast<float>(1.0 / static_cast<double>(rows.stride));
            const std::vector<float> before(static_cast<size_t>(lists * rows.stride), even);
            const Matrix shares = side.put(1, before, lists, rows.stride);
            float* entropy = side.stream->shared(kSlots[2], lists).value();
            float* covering = side.stream->shared(kSlots[3], lists).value();
            side.stream->block_entropy({.rows = rows,
                                        .scores = scores.data,
                                        .previous = fused > 0 ? shares.data : nullptr,
                                        .probabilities = fused > 1 ? shares.data : nullptr,
                                        .entropy = entropy,
                                        .covering = covering,
                                        .cover = cover});
            ASSERT_TRUE(side.stream->synchronize().ok());
            counts[at++].assign(covering, covering + lists);
          }
          // Probabilities differ in their last bits: the last block that counts may.
          for (size_t i = 0; i < counts[0].size(); ++i) EXPECT_NEAR(counts[0][i], counts[1][i], 1) << "list " << i;
        }
      }
    }
  }
}

TEST(CudaMidrange, ScoresAndEntropiesAreTheReferences) {
  EI_NEEDS_GPU();
  for (const RatedShape& s : shapes()) {
    if (s.before > 5000) continue;
    SCOPED_TRACE(name_of(s));
    std::vector<std::vector<float>> results[2];
    int at = 0;
    for (const char* name : {"cuda", "reference"}) {
      RatedChunk chunk(name, s, "");
      Stream& stream = *chunk.side.stream;
      const int64_t blocks = (s.before + s.tokens) / s.grid.block;
      const int64_t width = int64_t{s.kv_heads} * s.head_dim;
      const Matrix high = chunk.side.put(10, std::vector<float>(static_cast<size_t>(blocks * width), 0), blocks, width);
      const Matrix low = chunk.side.put(11, std::vector<float>(static_cast<size_t>(blocks * width), 0), blocks, width);
      const kernels::BlockExtremes keys{.max_keys = high.data,
                                        .min_keys = low.data,
                                        .type = DType::kF32,
                                        .head_stride = s.head_dim,
                                        .block_stride = width};
      stream.block_extremes(
          {.kv = chunk.store.view(0), .block = s.grid.block, .first_block = 0, .num_blocks = blocks, .out = keys});
      const Matrix middle =
          stream.scratch(kSlots[12], chunk.rows.num_segments, chunk.heads() * int64_t{s.head_dim}).value();
      stream.query_midrange({.q = chunk.q.data,
                             .q_stride = chunk.q.stride,
                             .tokens = s.tokens,
                             .segment = s.grid.segment,
                             .num_heads = chunk.heads(),
                             .head_dim = s.head_dim,
                             .out = middle.data});
      const std::vector<float> zeros(static_cast<size_t>(chunk.lists * chunk.rows.stride), 0);
      const Matrix scores = chunk.side.put(13, zeros, chunk.lists, chunk.rows.stride);
      const Matrix shares = chunk.side.put(14, zeros, chunk.lists, chunk.rows.stride);
      stream.block_scores({.rows = chunk.rows,
                           .queries = middle.data,
                           .num_heads = chunk.heads(),
                           .head_dim = s.head_dim,
                           .keys = keys,
                           .scale = 0.125f,
                           .scores = scores.data});
      float* entropy = stream.shared(kSlots[15], chunk.lists).value();
      stream.block_entropy({.rows = chunk.rows,
                            .scores = scores.data,
                            .previous = shares.data,
                            .probabilities = shares.data,
                            .entropy = entropy});
      for (const Matrix& matrix : {high, low, middle, scores, shares}) results[at].push_back(chunk.side.get(matrix));
      results[at++].emplace_back(entropy, entropy + chunk.lists);
    }
    for (size_t i = 0; i < results[0].size(); ++i)
      EXPECT_LE(relative_error(results[0][i], results[1][i]), 1e-4) << "result " << i;
  }
}

}  // namespace
}  // namespace ei::testing
