// The profiler's fast operations against the reference, over odd shapes, with one worker and with three.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/block_scores/cpu/block_scores.h"
#include "kernels/block_scores/reference/block_scores_reference.h"
#include "support/block_scores_twins.h"

namespace ei::kernels {
namespace {

TEST_P(ProfileTwins, FindTheSameExtremes) {
  const int64_t blocks = shape_.context / shape_.block;
  const DType type = extremes_type(shape_.type);
  const size_t bytes = static_cast<size_t>(blocks * shape_.kv_heads * shape_.head_dim) * dtype_bytes(type);
  std::vector<std::vector<std::byte>> all(4, std::vector<std::byte>(bytes, std::byte{1}));
  BlockExtremesParams params{
      .kv = random_.view(), .block = shape_.block, .first_block = 1, .num_blocks = blocks - 1, .out = {}};
  params.out = {all[0].data(), all[1].data(), type, shape_.head_dim, int64_t{shape_.kv_heads} * shape_.head_dim};
  reference_block_extremes(params);
  params.out.max_keys = all[2].data();
  params.out.min_keys = all[3].data();
  on_workers(3, [&](Worker worker) { block_extremes(params, worker); });
  EXPECT_EQ(all[0], all[2]);
  EXPECT_EQ(all[1], all[3]);
}

TEST_P(ProfileTwins, FindTheSameMidrangesScoresAndEntropies) {
  const size_t width = static_cast<size_t>(attention_.num_heads * shape_.head_dim);
  const int64_t into = attention_.first_position % shape_.segment;
  Floats expected(static_cast<size_t>(rows_.num_segments) * width);
  Floats midrange = expected;
  QueryMidrangeParams middle{.q = attention_.q,
                             .q_stride = attention_.q_stride,
                             .tokens = shape_.tokens,
                             .first_rows = into == 0 ? 0 : shape_.segment - into,
                             .segment = shape_.segment,
                             .num_heads = attention_.num_heads,
                             .head_dim = shape_.head_dim,
                             .out = expected.data()};
  reference_query_midrange(middle);
  middle.out = midrange.data();
  on_workers(3, [&](Worker worker) { query_midrange(middle, worker); });
  ASSERT_EQ(midrange, expected);

  const int64_t blocks = shape_.context / shape_.block;
  const auto elements = static_cast<size_t>(blocks * shape_.kv_heads * shape_.head_dim);
  Floats high(elements);
  Floats low(elements);
  const BlockExtremes keys{high.data(), low.data(), DType::kF32, shape_.head_dim,
                           int64_t{shape_.kv_heads} * shape_.head_dim};
  reference_block_extremes(
      {.kv = random_.view(), .block = shape_.block, .first_block = 0, .num_blocks = blocks, .out = keys});
  Floats slow(row_floats(), -5);
  Floats fast(row_floats(), -5);
  BlockScoreParams score{.rows = rows_,
                         .queries = midrange.data(),
                         .num_heads = attention_.num_heads,
                         .head_dim = shape_.head_dim,
                         .keys = keys,
                         .scale = 0.3f,
                         .scores = slow.data()};
  reference_block_scores(score);
  score.scores = fast.data();
  WorkQueue queue;
  on_workers(3, [&](Worker) { block_scores(score, queue); });
  for (size_t i = 0; i < slow.size(); ++i) ASSERT_NEAR(fast[i], slow[i], 1e-4f * (1 + std::fabs(slow[i])));
  const Floats midrange_scores = slow;
  score.kind = BlockScore::kUpperBound;
  score.scores = slow.data();
  reference_block_scores(score);
  score.scores = fast.data();
  WorkQueue bounds;
  on_workers(3, [&](Worker) { block_scores(score, bounds); });
  for (size_t i = 0; i < slow.size(); ++i) {
    ASSERT_NEAR(fast[i], slow[i], 1e-4f * (1 + std::fabs(slow[i])));
    ASSERT_GE(slow[i], midrange_scores[i]) << "no representative of a block has a larger product than its bound";
  }

  const auto lists = static_cast<size_t>(rows_.kv_heads * rows_.num_segments);
  Floats slow_entropy(lists);
  Floats fast_entropy(lists);
  Floats slow_covering(lists);
  Floats fast_covering(lists);
  Floats slow_p(row_floats(), -5);
  Floats fast_p(row_floats(), -5);
  const Floats previous(row_floats(), 0.01f);
  BlockEntropyParams entropy{.rows = rows_,
                             .scores = slow.data(),
                             .previous = previous.data(),
                             .probabilities = slow_p.data(),
                             .entropy = slow_entropy.data(),
                             .covering = slow_covering.data(),
                             .cover = 0.6f};
  reference_block_entropy(entropy);
  entropy.probabilities = fast_p.data();
  entropy.entropy = fast_entropy.data();
  entropy.covering = fast_covering.data();
  WorkQueue second;
  on_workers(3, [&](Worker) { block_entropy(entropy, second); });
  for (size_t i = 0; i < lists; ++i) EXPECT_NEAR(fast_entropy[i], slow_entropy[i], 1e-4f);
  EXPECT_EQ(fast_covering, slow_covering);
  for (size_t i = 0; i < slow_p.size(); ++i) ASSERT_NEAR(fast_p[i], slow_p[i], 1e-6f);
}

TEST_P(ProfileTwins, PlainRowScoresAreTheReferences) {
  for (const RowScore kind : {RowScore::kGroupPeak, RowScore::kMassMax, RowScore::kMassSum}) {
    Floats slow(row_floats(), -5);
    Floats fast(row_floats(), -5);
    reference_row_scores(row_params(kind, slow));
    const RowScoreParams params = row_params(kind, fast);
    WorkQueue queue;
    on_workers(3, [&](Worker) { row_scores_plain(params, queue); });
    for (size_t i = 0; i < slow.size(); ++i) ASSERT_NEAR(fast[i], slow[i], 2e-4f) << "element " << i;
  }
}

// Budgets follow the ratio of two entropies, so tiny ones count too.
TEST(BlockEntropy, OfRowsThatOneBlockOwnsIsTheReferences) {
  const BlockRows rows{{.segment = 4, .block = 1}, 1, 1, 1, 4};
  float slow = -1;
  float fast = -1;
  float before = 1;
  for (int step = 0; step <= 15; ++step) {
    const float others = -15.0f - 3.0f * static_cast<float>(step);
    const Floats scores = {0, others, others - 1, 2 * others};
    BlockEntropyParams params{
        .rows = rows, .scores = scores.data(), .previous = nullptr, .probabilities = nullptr, .entropy = &slow};
    reference_block_entropy(params);
    params.entropy = &fast;
    WorkQueue queue;
    on_workers(1, [&](Worker) { block_entropy(params, queue); });
    EXPECT_NEAR(fast / slow, 1.0f, 1e-4f) << others;
    EXPECT_LT(slow, before) << others;
    EXPECT_GT(slow, 0.0f) << others;
    before = slow;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ProfileTwins, profile_shapes());

}  // namespace
}  // namespace ei::kernels
