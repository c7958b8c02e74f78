// The profiler's fast operations against the reference, over odd shapes, with one worker and with three.
#include "kernels/cpu/profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "kernels/random_kv.h"
#include "kernels/reference/profile_reference.h"

namespace ei::kernels {
namespace {

using Floats = std::vector<float>;

void on_workers(int count, const std::function<void(Worker)>& job) {
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index) threads.emplace_back([&, index] { job(Worker{index, count}); });
  for (std::thread& thread : threads) thread.join();
}

struct Shape {
  int32_t head_dim;
  int32_t kv_heads;
  int32_t group;
  int32_t segment;
  int32_t block;
  int64_t context;
  int64_t tokens;
  DType type;
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "head_dim " << s.head_dim << ", " << s.kv_heads << " x " << s.group << " heads, segment " << s.segment
             << ", block " << s.block << ", rows " << s.tokens << " of " << s.context << ", " << dtype_name(s.type);
}

class ProfileTwins : public testing::TestWithParam<Shape> {
 protected:
  ProfileTwins()
      : shape_(GetParam()),
        random_({.head_dim = shape_.head_dim,
                 .kv_heads = shape_.kv_heads,
                 .group = shape_.group,
                 .tokens = shape_.tokens,
                 .context = shape_.context,
                 .page_slots = 24,
                 .key_type = shape_.type},
                11) {
    attention_ = random_.params(nullptr);
    const int64_t first = attention_.first_position;
    rows_.grid = {shape_.segment, shape_.block};
    rows_.kv_heads = shape_.kv_heads;
    rows_.first_segment = static_cast<int32_t>(first / shape_.segment);
    rows_.num_segments = static_cast<int32_t>((shape_.context - 1) / shape_.segment) - rows_.first_segment + 1;
    rows_.stride = rows_.visible(rows_.num_segments - 1) + 3;
  }

  size_t row_floats() const { return static_cast<size_t>(rows_.kv_heads * rows_.num_segments * rows_.stride); }
  RowScoreParams row_params(RowScore kind, Floats& scores) const {
    return {.kind = kind,
            .rows = rows_,
            .q = attention_.q,
            .q_stride = attention_.q_stride,
            .tokens = shape_.tokens,
            .first_position = attention_.first_position,
            .num_heads = attention_.num_heads,
            .scale = attention_.scale,
            .wanted = nullptr,
            .kv = random_.view(),
            .scores = scores.data()};
  }

  const Shape shape_;
  RandomAttention random_;
  AttentionParams attention_;
  BlockRows rows_;
};

TEST_P(ProfileTwins, FindTheSameExtremes) {
  const int64_t blocks = shape_.context / shape_.block;
  const size_t bytes = static_cast<size_t>(blocks * shape_.kv_heads * shape_.head_dim) * dtype_bytes(shape_.type);
  std::vector<std::vector<std::byte>> all(4, std::vector<std::byte>(bytes, std::byte{1}));
  BlockExtremesParams params{
      .kv = random_.view(), .block = shape_.block, .first_block = 1, .num_blocks = blocks - 1, .out = {}};
  params.out = {all[0].data(), all[1].data(), shape_.type, shape_.head_dim, int64_t{shape_.kv_heads} * shape_.head_dim};
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

  const auto lists = static_cast<size_t>(rows_.kv_heads * rows_.num_segments);
  Floats slow_entropy(lists);
  Floats fast_entropy(lists);
  Floats slow_p(row_floats(), -5);
  Floats fast_p(row_floats(), -5);
  const Floats previous(row_floats(), 0.01f);
  BlockEntropyParams entropy{.rows = rows_,
                             .scores = slow.data(),
                             .previous = previous.data(),
                             .probabilities = slow_p.data(),
                             .entropy = slow_entropy.data()};
  reference_block_entropy(entropy);
  entropy.probabilities = fast_p.data();
  entropy.entropy = fast_entropy.data();
  WorkQueue second;
  on_workers(3, [&](Worker) { block_entropy(entropy, second); });
  for (size_t i = 0; i < lists; ++i) EXPECT_NEAR(fast_entropy[i], slow_entropy[i], 1e-4f);
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

// Eight bits give each logit an error of a few hundredths; floats none.
TEST_P(ProfileTwins, EveryPeakVariantStaysNearTheReference) {
  if (shape_.block % 8 != 0) GTEST_SKIP() << "blocks of " << shape_.block << " go the plain way";
  Floats expected(row_floats(), -5);
  reference_row_scores(row_params(RowScore::kGroupPeak, expected));
  for (const PeakVariant* variant : peak_variants()) {
    if (!variant->usable()) continue;
    std::vector<Floats> results;
    for (const int workers : {1, 3}) {
      Floats& scores = results.emplace_back(row_floats(), -5.0f);
      const RowScoreParams params = row_params(RowScore::kGroupPeak, scores);
      AttentionScratch scratch(variant->scratch_bytes(params, workers) + kScratchHeader);
      WorkQueue queue;
      on_workers(workers, [&](Worker worker) { variant->pack(params, scratch.data(), worker); });
      on_workers(workers, [&](Worker worker) { variant->score(params, scratch.data(), queue, worker); });
      on_workers(workers, [&](Worker worker) { variant->merge(params, scratch.data(), worker); });
    }
    EXPECT_EQ(results[0], results[1]) << variant->name;
    const float tolerance = variant->name == "portable" ? 1e-3f : 0.15f;
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(results[0][i], expected[i], tolerance) << variant->name << ", element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ProfileTwins,
    testing::Values(Shape{64, 2, 3, 64, 8, 400, 100, DType::kBF16}, Shape{32, 1, 1, 32, 16, 128, 128, DType::kF32},
                    Shape{40, 3, 2, 48, 8, 301, 90, DType::kF16}, Shape{128, 1, 8, 40, 4, 160, 37, DType::kBF16},
                    Shape{256, 2, 1, 64, 32, 200, 1, DType::kBF16}, Shape{72, 1, 4, 30, 5, 90, 61, DType::kF32}));

// Keys and queries that eight bits hold exactly: what is left is the arithmetic, and it must be exact.
TEST(RowPeaks, LoseNothingWhereEightBitsAreEnough) {
  constexpr int kDim = 64;
  constexpr int kContext = 256;
  Random random(5);
  std::vector<uint16_t> page(kContext * kDim);
  for (size_t i = 0; i < page.size(); ++i) page[i] = f32_to_bf16(static_cast<float>(random.below(255)) - 127.0f);
  for (size_t key = 0; key < kContext; key += 8) page[key * kDim] = f32_to_bf16(127.0f);
  Floats q(64 * kDim);
  for (float& value : q) value = static_cast<float>(random.below(255)) - 127.0f;
  for (size_t row = 0; row < 64; ++row) q[row * kDim + 3] = -127.0f;
  const void* pages[] = {page.data()};
  const KvHeadView head{.key_pages = pages, .value_pages = pages, .length = kContext};
  const BlockRows rows{{.segment = 64, .block = 8}, 1, 3, 1, 24};
  Floats expected(24);
  Floats scores(24);
  RowScoreParams params{.rows = rows,
                        .q = q.data(),
                        .q_stride = kDim,
                        .tokens = 64,
                        .first_position = 192,
                        .num_heads = 1,
                        .scale = 1e-4f,
                        .wanted = nullptr,
                        .kv = {DType::kBF16, DType::kBF16, kDim, kContext, {&head, 1}},
                        .scores = expected.data()};
  reference_row_scores(params);
  params.scores = scores.data();
  for (const PeakVariant* variant : peak_variants()) {
    if (!variant->usable()) continue;
    AttentionScratch scratch(variant->scratch_bytes(params, 1) + kScratchHeader);
    WorkQueue queue;
    variant->pack(params, scratch.data(), {});
    variant->score(params, scratch.data(), queue, {});
    variant->merge(params, scratch.data(), {});
    for (size_t j = 0; j < scores.size(); ++j) EXPECT_NEAR(scores[j], expected[j], 3e-4f) << variant->name << " " << j;
  }
}

}  // namespace
}  // namespace ei::kernels
