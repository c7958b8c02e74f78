// Peak scores of every variant against the reference, over odd shapes, with one worker and with three.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <vector>

#include "kernels/block_scores/cpu/block_scores.h"
#include "kernels/block_scores/cpu/row_peaks_lanes.h"
#include "kernels/block_scores/cpu/row_peaks_tiles.h"
#include "kernels/block_scores/reference/block_scores_reference.h"
#include "support/block_scores_twins.h"
#include "support/bytes_emulated.h"
#include "support/tiles_emulated.h"

namespace ei::kernels {
namespace {

class PeakTwins : public ProfileTwins {};

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
    scales_.resize(static_cast<size_t>(9 * heads * keys.capacity));
    keys.keys = keys_.data();
    keys.bounds = bounds_.data();
    keys.key_scales = scales_.data();
    keys.bound_scales = scales_.data() + heads * keys.capacity;
    const int64_t blocks = length / block;
    // In two steps, as a prompt that grows.
    const int64_t half = length / 16 * 8;
    PackKeysParams pack{.kv = params.kv, .first = 0, .length = half, .block = static_cast<int32_t>(block), .out = keys};
    pack.supers = half / block / keys.super_blocks;
    run([&](Worker worker) { variant_.pack_keys(pack, worker); });
    pack.first = half;
    pack.first_super = pack.supers;
    pack.length = length;
    pack.supers = blocks / keys.super_blocks;
    run([&](Worker worker) { variant_.pack_keys(pack, worker); });

    AttentionScratch scratch(variant_.scratch_bytes(params, workers) + kScratchHeader);
    for (const auto step : variant_.steps) {
      WorkQueue queue;
      run([&](Worker worker) { step(params, scratch.data(), queue, worker); });
    }
    run([&](Worker worker) { variant_.merge(params, scratch.data(), worker); });
  }

 private:
  void run(const std::function<void(Worker)>& step) const { on_workers(workers_, step); }

  const PeakVariant& variant_;
  const int workers_;
  std::vector<int8_t> keys_;
  std::vector<int8_t> bounds_;
  Floats scales_;
};

void run_peaks(const PeakVariant& variant, const PeakScoreParams& params, int workers) {
  [[maybe_unused]] const PeakRun run(variant, params, workers);
}

void expect_near(const AttentionSample& sample, const AttentionSample& expected) {
  EXPECT_NEAR(sample.sink, expected.sink, 0.03f);
  EXPECT_NEAR(sample.far, expected.far, 0.03f);
  EXPECT_NEAR(sample.distant, expected.distant, 0.03f);
  // A normaliser may be 3 % off, which moves shares, not distributions.
  EXPECT_NEAR(sample.segment_entropy, expected.segment_entropy, 0.03f);
  EXPECT_NEAR(sample.row_entropy, expected.row_entropy, 0.03f);
}

// Eight bits give each logit an error of a few hundredths.
TEST_P(PeakTwins, EveryPeakVariantStaysNearTheReference) {
  if (shape_.block % 8 != 0) GTEST_SKIP() << "blocks of " << shape_.block << " go the plain way";
  for (const GroupQuery queries : {GroupQuery::kMean, GroupQuery::kLeastLocal, GroupQuery::kEach}) {
    const Sampling sampling = queries == GroupQuery::kMean ? Sampling::kMean : Sampling::kHeads;
    const std::vector<BlockRanking> ranking(static_cast<size_t>(shape_.kv_heads),
                                            {.queries = queries, .sampling = sampling});
    for (int32_t segment = 0; segment < rows_.num_segments; ++segment) {
      if (rows_.visible(segment) < rows_.grid.blocks_per_segment()) continue;
      Floats expected(row_floats(), -5);
      std::vector<AttentionSample> expected_samples(ranking.size());
      reference_peak_scores(peak_params(segment, ranking, expected, expected_samples));
      for (const PeakVariant* variant : tested_variants()) {
        Floats one(row_floats(), -5);
        Floats three(row_floats(), -5);
        std::vector<AttentionSample> samples(ranking.size());
        run_peaks(*variant, peak_params(segment, ranking, one, samples), 1);
        run_peaks(*variant, peak_params(segment, ranking, three, samples), 3);
        EXPECT_EQ(one, three) << variant->name;
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_NEAR(one[i], expected[i], 0.2f) << variant->name << ", element " << i;
        for (size_t h = 0; h < samples.size(); ++h) expect_near(samples[h], expected_samples[h]);
      }
    }
  }
}

TEST_P(PeakTwins, RanksByTheRowsFurthestFromTheMean) {
  if (shape_.block % 8 != 0) GTEST_SKIP() << "blocks of " << shape_.block << " go the plain way";
  const int32_t segment = rows_.num_segments - 1;
  const int64_t begin = int64_t{rows_.first_segment + segment} * shape_.segment;
  const auto count = static_cast<size_t>(shape_.context - std::max<int64_t>(begin, attention_.first_position));
  const auto asked = static_cast<int32_t>((count + 1) / 2);
  for (const GroupQuery queries : {GroupQuery::kMean, GroupQuery::kEach}) {
    const std::vector<BlockRanking> ranking(static_cast<size_t>(shape_.kv_heads), {.rows = asked, .queries = queries});
    Floats scores(row_floats());
    std::vector<AttentionSample> samples;
    PeakScoreParams params = peak_params(segment, ranking, scores, samples);
    Floats row_distances(count * ranking.size() * static_cast<size_t>(params.most_queries));
    params.row_distances = row_distances.data();
    reference_peak_scores(params);
    for (const PeakVariant* variant : tested_variants()) {
      if (count < 2) continue;
      Floats fast(row_distances.size());
      params.row_distances = fast.data();
      run_peaks(*variant, params, 2);
      for (size_t i = 0; i < fast.size(); ++i)
        EXPECT_NEAR(fast[i], row_distances[i], 0.02f * row_distances[i] + 0.02f) << variant->name;
    }
  }
}

// Blocks outside the super-blocks with the largest bounds are not rated; the others as if these did not exist.
TEST_P(PeakTwins, RatesTheBlocksWithTheLargestBounds) {
  if (shape_.block % 8 != 0) GTEST_SKIP() << "blocks of " << shape_.block << " go the plain way";
  const int32_t segment = rows_.num_segments - 1;
  const int64_t visible = rows_.visible(segment);
  std::vector<BlockRanking> ranking(static_cast<size_t>(shape_.kv_heads), {.rows = 3});
  std::vector<AttentionSample> samples;
  Floats all(row_floats());
  Floats some(row_floats());
  PeakScoreParams params = peak_params(segment, ranking, all, samples);
  const int64_t width = params.keys.super_blocks;
  const int64_t supers = visible / width;
  const int64_t begin = int64_t{rows_.first_segment + segment} * shape_.segment;
  const int64_t count = shape_.context - std::max<int64_t>(begin, attention_.first_position);
  if (supers < 3 || count <= 3) GTEST_SKIP() << "too short a text to leave anything out";
  Floats expected(ranking.size() * static_cast<size_t>(supers));
  Floats super_bounds(expected.size());
  for (BlockRanking& head : ranking) head.candidates = static_cast<int32_t>(2 * width);
  params.super_bounds = expected.data();
  reference_peak_scores(params);
  for (const PeakVariant* variant : tested_variants()) {
    for (BlockRanking& head : ranking) head.candidates = 0;
    params.scores = all.data();
    run_peaks(*variant, params, 1);
    for (BlockRanking& head : ranking) head.candidates = static_cast<int32_t>(2 * width);
    params.scores = some.data();
    params.super_bounds = super_bounds.data();
    run_peaks(*variant, params, 3);
    for (size_t i = 0; i < super_bounds.size(); ++i) EXPECT_NEAR(super_bounds[i], expected[i], 0.5f) << variant->name;
    for (int32_t h = 0; h < shape_.kv_heads; ++h) {
      const float* of_head = super_bounds.data() + h * supers;
      const int64_t best = std::max_element(of_head + 1, of_head + supers) - of_head;
      for (int64_t j = 0; j < visible; ++j) {
        const float score = some[static_cast<size_t>(rows_.offset(h, segment) + j)];
        const bool rated = j < width || j / width == best || j >= supers * width;
        EXPECT_EQ(score > -1e6f, rated) << variant->name << ", block " << j;
        // The same peak over a sum of fewer terms.
        if (rated) {
          const float whole = all[static_cast<size_t>(rows_.offset(h, segment) + j)];
          EXPECT_GE(score, whole - 1e-4f);
          EXPECT_LE(score, whole + std::log(static_cast<float>(visible + shape_.segment)));
        }
      }
    }
  }
}

TEST_P(PeakTwins, LocalHeadsReadTheFirstBlockAndTheLatest) {
  if (shape_.block % 8 != 0) GTEST_SKIP() << "blocks of " << shape_.block << " go the plain way";
  const int32_t segment = rows_.num_segments - 1;
  const std::vector<BlockRanking> ranking(static_cast<size_t>(shape_.kv_heads), {.latest = true});
  Floats expected(row_floats(), -5);
  Floats scores(row_floats(), -5);
  std::vector<AttentionSample> samples;
  reference_peak_scores(peak_params(segment, ranking, expected, samples));
  for (const PeakVariant* variant : tested_variants()) {
    run_peaks(*variant, peak_params(segment, ranking, scores, samples), 2);
    EXPECT_EQ(scores, expected);
  }
  const float* row = expected.data() + rows_.offset(0, segment);
  for (int64_t j = 2; j < rows_.visible(segment); ++j) EXPECT_GT(row[j], row[j - 1]);
  EXPECT_EQ(row[0], 0.0f);
}

INSTANTIATE_TEST_SUITE_P(Shapes, PeakTwins, profile_shapes());

// Keys and queries that eight bits hold exactly: what is left is the arithmetic. Products must be exact, and the terms
// of a normaliser within 3 % of theirs. With one row all scores share its normaliser, so that their gaps show the
// products.
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
  const BlockRanking ranking;
  PeakScoreParams params{.rows = {{.segment = 64, .block = 8}, 1, 3, 1, 24},
                         .q = q.data(),
                         .q_stride = kDim,
                         .tokens = 64,
                         .first_position = 192,
                         .num_heads = 1,
                         .scale = 1e-4f,
                         .kv = {DType::kBF16, DType::kBF16, kDim, kContext, {&head, 1}},
                         .keys = {},
                         .ranking = &ranking,
                         .scores = expected.data()};
  params.keys.super_blocks = 8;
  for (const int64_t rows : {int64_t{1}, int64_t{64}}) {
    params.tokens = rows;
    params.scores = expected.data();
    reference_peak_scores(params);
    params.scores = scores.data();
    for (const PeakVariant* variant : tested_variants()) {
      run_peaks(*variant, params, 1);
      for (size_t j = 0; j < scores.size(); ++j) {
        EXPECT_NEAR(scores[j], expected[j], 0.04f) << variant->name << " " << j;
        if (rows == 1) {
          EXPECT_NEAR(scores[j] - scores[0], expected[j] - expected[0], 1e-4f) << variant->name << " " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ei::kernels
