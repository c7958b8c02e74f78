// The profiler's fast operations against the reference, over odd shapes, with one worker and with three.
#include "kernels/cpu/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/cpu/bytes_emulated.h"
#include "kernels/cpu/row_peaks_lanes.h"
#include "kernels/cpu/row_peaks_tiles.h"
#include "kernels/cpu/tiles_emulated.h"
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

  PeakScoreParams peak_params(int32_t segment, const std::vector<HeadCare>& care, Floats& scores, Floats& probes) {
    PeakScoreParams params{.rows = rows_,
                           .segment = segment,
                           .q = attention_.q,
                           .q_stride = attention_.q_stride,
                           .tokens = shape_.tokens,
                           .first_position = attention_.first_position,
                           .num_heads = attention_.num_heads,
                           .scale = attention_.scale,
                           .kv = random_.view(),
                           .keys = {},
                           .care = care.data(),
                           .scores = scores.data(),
                           .probes = probes.data()};
    params.keys.super_blocks = std::gcd(rows_.grid.blocks_per_segment(), 4);
    return params;
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

// Those of this CPU, and the x86 ones with their instructions replaced by loops.
std::vector<const PeakVariant*> tested_variants() {
  static constexpr auto kAlways = [] { return true; };
  static constexpr PeakVariant kLanes = make_peak_variant<LanesPeaks<BytesEmulated>>("emulated avx512", "", kAlways);
  static constexpr PeakVariant kTiles = make_peak_variant<TilesPeaks<TilesEmulated>>("emulated amx", "", kAlways);
  std::vector<const PeakVariant*> tested = {&kLanes, &kTiles};
  std::copy_if(peak_variants().begin(), peak_variants().end(), std::back_inserter(tested),
               [](const PeakVariant* variant) { return variant->usable(); });
  return tested;
}

// All steps of a peak score on some workers, over panels of its own.
class PeakRun {
 public:
  PeakRun(const PeakVariant& variant, PeakScoreParams params, int workers) : variant_(variant), workers_(workers) {
    const int64_t length = params.first_position + params.tokens;
    const int64_t dim = params.kv.head_dim;
    const auto heads = static_cast<int64_t>(params.kv.heads.size());
    const int64_t block = params.rows.grid.block;
    KeyPanels& keys = params.keys;
    keys.capacity = length / 8 + 2;
    keys.bound_capacity = keys.capacity;
    keys_.resize(static_cast<size_t>(heads * keys.capacity * 8 * dim));
    bounds_.resize(static_cast<size_t>(heads * keys.bound_capacity * 16 * dim));
    scales_.resize(static_cast<size_t>(2 * heads * keys.capacity));
    keys.keys = keys_.data();
    keys.bounds = bounds_.data();
    keys.key_scales = scales_.data();
    keys.bound_scales = scales_.data() + heads * keys.capacity;
    const int64_t blocks = length / block;
    high_.resize(static_cast<size_t>(blocks * heads * dim));
    low_.resize(high_.size());
    const BlockExtremes extremes{high_.data(), low_.data(), DType::kF32, dim, heads * dim};
    reference_block_extremes({.kv = params.kv,
                              .block = static_cast<int32_t>(block),
                              .first_block = 0,
                              .num_blocks = blocks,
                              .out = extremes});
    // In two steps, as a prompt that grows.
    const int64_t half = length / 16 * 8;
    PackKeysParams pack{.kv = params.kv, .first = 0, .length = half, .extremes = extremes, .out = keys};
    pack.supers = half / block / keys.super_blocks;
    run([&](Worker worker) { variant_.pack_keys(pack, worker); });
    pack.first = half;
    pack.first_super = pack.supers;
    pack.length = length;
    pack.supers = blocks / keys.super_blocks;
    run([&](Worker worker) { variant_.pack_keys(pack, worker); });

    AttentionScratch scratch(variant_.scratch_bytes(params, workers) + kScratchHeader);
    WorkQueue queues[3];
    run([&](Worker worker) { variant_.prepare(params, scratch.data(), queues[0], worker); });
    run([&](Worker worker) { variant_.choose(params, scratch.data(), queues[1], worker); });
    run([&](Worker worker) { variant_.score(params, scratch.data(), queues[2], worker); });
    run([&](Worker worker) { variant_.merge(params, scratch.data(), worker); });
  }

 private:
  void run(const std::function<void(Worker)>& step) const { on_workers(workers_, step); }

  const PeakVariant& variant_;
  const int workers_;
  std::vector<int8_t> keys_;
  std::vector<int8_t> bounds_;
  Floats scales_;
  Floats high_;
  Floats low_;
};

// Eight bits give each logit an error of a few hundredths.
TEST_P(ProfileTwins, EveryPeakVariantStaysNearTheReference) {
  if (shape_.block % 8 != 0) GTEST_SKIP() << "blocks of " << shape_.block << " go the plain way";
  for (const bool homeless : {false, true}) {
    const std::vector<HeadCare> care(static_cast<size_t>(shape_.kv_heads), {.homeless = homeless, .probe = true});
    for (int32_t segment = 0; segment < rows_.num_segments; ++segment) {
      if (rows_.visible(segment) < rows_.grid.blocks_per_segment()) continue;
      Floats expected(row_floats(), -5);
      Floats expected_probes(static_cast<size_t>(2 * shape_.kv_heads));
      reference_peak_scores(peak_params(segment, care, expected, expected_probes));
      for (const PeakVariant* variant : tested_variants()) {
        Floats one(row_floats(), -5);
        Floats three(row_floats(), -5);
        Floats probes(expected_probes.size());
        PeakRun(*variant, peak_params(segment, care, one, probes), 1);
        PeakRun(*variant, peak_params(segment, care, three, probes), 3);
        EXPECT_EQ(one, three) << variant->name;
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(one[i], expected[i], 0.2f) << variant->name << ", element " << i;
        for (size_t i = 0; i < probes.size(); ++i) EXPECT_NEAR(probes[i], expected_probes[i], 0.03f);
      }
    }
  }
}

TEST_P(ProfileTwins, AsksTheRowsThatWantMost) {
  if (shape_.block % 8 != 0) GTEST_SKIP() << "blocks of " << shape_.block << " go the plain way";
  const int32_t segment = rows_.num_segments - 1;
  const int64_t begin = int64_t{rows_.first_segment + segment} * shape_.segment;
  const auto count = static_cast<size_t>(shape_.context - std::max<int64_t>(begin, attention_.first_position));
  const auto asked = static_cast<int32_t>((count + 1) / 2);
  const std::vector<HeadCare> care(static_cast<size_t>(shape_.kv_heads), {.rows = asked});
  Floats scores(row_floats());
  Floats probes;
  Floats wanting(count * care.size());
  PeakScoreParams params = peak_params(segment, care, scores, probes);
  params.wanting = wanting.data();
  reference_peak_scores(params);
  for (const PeakVariant* variant : tested_variants()) {
    if (count < 2) continue;
    Floats fast(wanting.size());
    params.wanting = fast.data();
    PeakRun(*variant, params, 2);
    for (size_t i = 0; i < fast.size(); ++i) EXPECT_NEAR(fast[i], wanting[i], 0.5f) << variant->name;
  }
}

TEST_P(ProfileTwins, LocalHeadsReadTheFirstBlockAndTheLatest) {
  if (shape_.block % 8 != 0) GTEST_SKIP() << "blocks of " << shape_.block << " go the plain way";
  const int32_t segment = rows_.num_segments - 1;
  const std::vector<HeadCare> care(static_cast<size_t>(shape_.kv_heads), {.latest = true});
  Floats expected(row_floats(), -5);
  Floats scores(row_floats(), -5);
  Floats probes;
  reference_peak_scores(peak_params(segment, care, expected, probes));
  for (const PeakVariant* variant : tested_variants()) {
    PeakRun(*variant, peak_params(segment, care, scores, probes), 2);
    EXPECT_EQ(scores, expected);
  }
  const float* row = expected.data() + rows_.offset(0, segment);
  for (int64_t j = 2; j < rows_.visible(segment); ++j) EXPECT_GT(row[j], row[j - 1]);
  EXPECT_EQ(row[0], 0.0f);
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
  Floats expected(24);
  Floats scores(24);
  const HeadCare care;
  PeakScoreParams params{.rows = {{.segment = 64, .block = 8}, 1, 3, 1, 24},
                         .q = q.data(),
                         .q_stride = kDim,
                         .tokens = 64,
                         .first_position = 192,
                         .num_heads = 1,
                         .scale = 1e-4f,
                         .kv = {DType::kBF16, DType::kBF16, kDim, kContext, {&head, 1}},
                         .keys = {},
                         .care = &care,
                         .scores = expected.data()};
  params.keys.super_blocks = 8;
  reference_peak_scores(params);
  params.scores = scores.data();
  for (const PeakVariant* variant : tested_variants()) {
    PeakRun(*variant, params, 1);
    for (size_t j = 0; j < scores.size(); ++j) EXPECT_NEAR(scores[j], expected[j], 3e-4f) << variant->name << " " << j;
  }
}

}  // namespace
}  // namespace ei::kernels
