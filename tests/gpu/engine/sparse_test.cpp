// What a sparse prefill measures and chooses on the GPU, against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gpu/engine/sides.h"
#include "kv/store.h"

namespace ei::testing {
namespace {

using kernels::BlockRows;

struct Shape {
  DType type = DType::kBF16;
  int32_t head_dim = 64;
  int32_t kv_heads = 2;
  int32_t group = 3;
  SegmentGrid grid{64, 8};
  int64_t before = 640;  // tokens that are there
  int64_t tokens = 230;  // of the chunk, from there on
};

std::string name_of(const Shape& s) {
  return str_format("%s dim %d, %d x %d heads, segment %d, block %d, %lld behind %lld", dtype_name(s.type), s.head_dim,
                    s.kv_heads, s.group, s.grid.segment, s.grid.block, static_cast<long long>(s.tokens),
                    static_cast<long long>(s.before));
}

std::vector<Shape> shapes() {
  std::vector<Shape> list;
  for (const int32_t head_dim : {64, 96, 128, 256}) list.push_back({.head_dim = head_dim});
  list.push_back({.type = DType::kF16, .head_dim = 128, .group = 4, .grid = {128, 16}, .before = 4096, .tokens = 256});
  list.push_back({.head_dim = 128, .kv_heads = 1, .group = 1, .grid = {64, 32}, .before = 1280, .tokens = 64});
  list.push_back({.head_dim = 64, .group = 2, .grid = {512, 8}, .before = 5632, .tokens = 600});
  list.push_back({.type = DType::kF32, .head_dim = 40, .grid = {48, 8}, .before = 480, .tokens = 90});
  list.push_back({.head_dim = 64, .grid = {64, 64}, .before = 1024, .tokens = 128});
  return list;
}

// One layer's keys and the queries of a chunk, on one backend.
struct Chunk {
  Chunk(const std::string& name, const Shape& shape, const std::string& kernels)
      : side(name, /*wide=*/true, kernels),
        s(shape),
        store(*side.backend,
              {.layers = 1, .kv_heads = s.kv_heads, .head_dim = s.head_dim, .key_type = s.type, .value_type = s.type}) {
    feed(s.before, 100);
    q = feed(s.tokens, 200);
    rows.grid = s.grid;
    rows.kv_heads = s.kv_heads;
    rows.first_segment = static_cast<int32_t>(s.before / s.grid.segment);
    rows.num_segments = static_cast<int32_t>((s.before + s.tokens - 1) / s.grid.segment) - rows.first_segment + 1;
    rows.stride = rows.visible(rows.num_segments - 1) + 3;
    lists = int64_t{rows.kv_heads} * rows.num_segments;
  }

  int32_t heads() const { return s.kv_heads * s.group; }

  Matrix feed(int64_t tokens, uint64_t seed) {
    EXPECT_TRUE(store.reserve(tokens).ok());
    const int64_t width = int64_t{heads() + 2 * s.kv_heads} * s.head_dim;
    // Some keys and queries stand out, as they do in models.
    std::vector<float> values = normals(tokens * width, seed);
    for (int64_t t = 0; t < tokens; t += 7)
      for (int64_t i = 0; i < width; ++i) values[static_cast<size_t>(t * width + i)] *= 2;
    const Matrix qkv = side.put(static_cast<int>(seed), values, tokens, width);
    const std::vector<float> ones(static_cast<size_t>(tokens), 1.0f);
    const std::vector<float> zeros(static_cast<size_t>(tokens), 0.0f);
    const int64_t kv_width = int64_t{s.kv_heads} * s.head_dim;
    const int64_t q_width = int64_t{heads()} * s.head_dim;
    Stream& stream = *side.stream;
    stream.rotate_append({.q = qkv.columns(0, q_width),
                          .k = qkv.columns(q_width, kv_width),
                          .v = qkv.columns(q_width + kv_width, kv_width),
                          .rope = {.cos = static_cast<const float*>(stream.stage(ones.data(), ones.size() * 4)),
                                   .sin = static_cast<const float*>(stream.stage(zeros.data(), zeros.size() * 4)),
                                   .dims = 2},
                          .append = store.append(0, tokens)});
    EXPECT_TRUE(stream.synchronize().ok());
    return qkv.columns(0, q_width);
  }

  // Scores of all lists, and samples.
  std::vector<float> rate(const std::vector<BlockRanking>& rankings, bool sampled_only,
                          std::vector<AttentionSample>& samples) {
    Stream& stream = *side.stream;
    const kernels::KeyIndexShape keys{
        .heads = heads(), .kv_heads = s.kv_heads, .head_dim = s.head_dim, .key_type = s.type, .grid = s.grid};
    const int64_t length = s.before + s.tokens;
    const kernels::KeyIndexBytes bytes = side.backend->key_index_bytes(keys, length, lists / s.kv_heads);
    const Buffer kept = side.backend->allocate(static_cast<size_t>(std::max<int64_t>(bytes.kept, 1))).value();
    const Buffer passing = side.backend->allocate(static_cast<size_t>(std::max<int64_t>(bytes.passing, 1))).value();
    const kernels::KeyIndex index{
        .shape = keys, .kept = kept.data(), .passing = passing.data(), .kept_tokens = length, .passing_tokens = length};
    const int64_t supers = length / (int64_t{kernels::blocks_per_super(s.grid)} * s.grid.block);
    for (const int64_t first : {int64_t{0}, supers / 2})  // in two steps, as a prompt that grows
      stream.pack_keys({.kv = store.view(0),
                        .index = index,
                        .first = 0,
                        .length = length,
                        .block = s.grid.block,
                        .first_super = first,
                        .supers = first == 0 ? supers / 2 : supers,
                        .out = {}});
    auto* ranking = reinterpret_cast<BlockRanking*>(stream.shared(kSlots[1], 16 * lists).value());
    std::copy(rankings.begin(), rankings.end(), ranking);
    auto* found = reinterpret_cast<AttentionSample*>(stream.shared(kSlots[2], 16 * lists).value());
    const Matrix scores =
        side.put(3, std::vector<float>(static_cast<size_t>(lists * rows.stride), -5.0f), lists, rows.stride);
    stream.peak_scores({.rows = rows,
                        .q = q.data,
                        .q_stride = q.stride,
                        .tokens = s.tokens,
                        .first_position = static_cast<int32_t>(s.before),
                        .num_heads = heads(),
                        .scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim)),
                        .kv = store.view(0),
                        .index = index,
                        .keys = {},
                        .ranking = ranking,
                        .sampled_only = sampled_only,
                        .most_queries = s.group,
                        .scores = scores.data,
                        .samples = found},
                       std::vector<uint8_t>(static_cast<size_t>(rows.num_segments), 1));
    std::vector<float> result = side.get(scores);
    samples.assign(found, found + lists);
    return result;
  }

  Side side;
  Shape s;
  kv::Store store;
  Matrix q;
  BlockRows rows;
  int64_t lists = 0;
};

struct CudaRating : ::testing::TestWithParam<const char*> {
  void SetUp() override { EI_NEEDS_GPU(); }
};
INSTANTIATE_TEST_SUITE_P(Kernels, CudaRating, ::testing::Values("", "portable"),
                         [](const auto& test) { return *test.param != 0 ? test.param : "fastest"; });

bool slow(const Shape& s, const char* kernels) { return *kernels != 0 && s.before > 5000; }

// The fastest kernels round queries and keys to 8 bits, as the CPU's do: the same distances are allowed.
bool rounds(const char* kernels) { return *kernels == 0; }

TEST_P(CudaRating, SamplesAreTheReferences) {
  for (const Shape& s : shapes()) {
    if (slow(s, GetParam())) continue;
    for (const Sampling sampling : {Sampling::kMean, Sampling::kHeads}) {
      SCOPED_TRACE(::testing::Message() << name_of(s) << " sampling " << static_cast<int>(sampling));
      Chunk ours("cuda", s, GetParam());
      Chunk reference("reference", s, "");
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
  for (const Shape& s : shapes()) {
    if (slow(s, GetParam())) continue;
    SCOPED_TRACE(name_of(s));
    Chunk ours("cuda", s, GetParam());
    Chunk reference("reference", s, "");
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

TEST(CudaMidrange, ScoresAndEntropiesAreTheReferences) {
  EI_NEEDS_GPU();
  for (const Shape& s : shapes()) {
    if (s.before > 5000) continue;
    SCOPED_TRACE(name_of(s));
    std::vector<std::vector<float>> results[2];
    int at = 0;
    for (const char* name : {"cuda", "reference"}) {
      Chunk chunk(name, s, "");
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
