// The compressor's choice against the reference, and where a compressed cache may be rewound to.
#include "kv/compressor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "kv/rewind.h"
#include "support/compressed_cache.h"
#include "support/plain_kv.h"

namespace ei::kv {
namespace {

using testing::CompressedCache;
using testing::kHeads;
using testing::kKvHeads;
using testing::kWidth;
using testing::make_backend;

policy::KvOptions latent(int32_t budget, int32_t window) {
  return {.rule = policy::KvRule::kLatent, .budget = budget, .window = window, .kernel = 3};
}

TEST(Compressor, KeepsWhatTheMethodSaysOfTheReferencesScores) {
  const policy::KvOptions options = latent(20, 6);
  CompressedCache f(options, {0, 0});
  f.feed(30);
  f.feed(33);
  const std::unique_ptr<Backend> reference = make_backend("reference");
  const std::unique_ptr<Stream> oracle = std::move(reference->new_stream(nullptr)).value();
  for (int round = 0; round < 3; ++round) {
    const std::vector<int32_t> at = f.compressor.observer().positions();
    std::vector<std::vector<int32_t>> expected;  // positions, layer by layer and head by head
    for (int layer = 0; layer < 2; ++layer) {
      const KvView view = f.store.view(layer);
      const int64_t length = view.heads[0].length;
      std::vector<float> scores(static_cast<size_t>(kHeads * length));
      oracle->window_scores({.q = f.queries.data() + f.queries.size() - 6 * kWidth,
                             .q_stride = kWidth,
                             .positions = at.data(),
                             .window = 6,
                             .num_heads = kHeads,
                             .scale = 0.35f,
                             .kv = view,
                             .scores = scores.data(),
                             .score_stride = length});
      ASSERT_TRUE(oracle->synchronize().ok());
      // By hand: the mean of the group, the mean of three neighbours, the best fourteen and the last six.
      for (int h = 0; h < kKvHeads; ++h) {
        const float* first = scores.data() + h * 2 * length;
        testing::PlainScores mean;
        for (int64_t slot = 0; slot < length - 6; ++slot)
          mean.push_back((static_cast<double>(first[slot]) + static_cast<double>(first[length + slot])) / 2);
        const KeepList keep = testing::plain_keep(testing::plain_pooled(mean, options.pooling, 3), 14, length);
        std::vector<int32_t>& positions = expected.emplace_back();
        for (const int32_t slot : keep) positions.push_back(view.heads[static_cast<size_t>(h)].position(slot));
      }
    }
    const int64_t before = f.store.tokens_kept();
    const Result<int64_t> dropped = f.compressor.compress(*f.stream, f.store);
    ASSERT_TRUE(dropped.ok());
    EXPECT_EQ(*dropped, before - f.store.tokens_kept());
    for (int layer = 0; layer < 2; ++layer) {
      for (int h = 0; h < kKvHeads; ++h) {
        const KvHeadView& head = f.store.view(layer).heads[static_cast<size_t>(h)];
        std::vector<int32_t> held;
        for (int64_t slot = 0; slot < head.length; ++slot) held.push_back(head.position(slot));
        EXPECT_EQ(held, expected[static_cast<size_t>(layer * kKvHeads + h)]) << "round " << round;
        EXPECT_EQ(head.length, 20);
      }
    }
    f.feed(9 + round);
  }
}

TEST(Compressor, UnevenSharesStayInsideTheLayersSlotsThroughManyRounds) {
  policy::KvOptions options = latent(40, 6);
  options.share = policy::KvShare::kAdaptive;
  CompressedCache f(options, {0, 0});
  f.sharp_head = 1;
  f.feed(90);
  bool uneven = false;
  for (int round = 0; round < 6; ++round) {
    ASSERT_GT(f.compressor.most_held(f.store), 40);
    ASSERT_TRUE(f.compressor.compress(*f.stream, f.store).ok());
    for (int layer = 0; layer < 2; ++layer) {
      EXPECT_EQ(f.store.length(layer, 0) + f.store.length(layer, 1), 80) << "round " << round;
      uneven = uneven || f.store.length(layer, 0) != f.store.length(layer, 1);
      for (int h = 0; h < kKvHeads; ++h) {
        const KvHeadView& head = f.store.view(layer).heads[static_cast<size_t>(h)];
        EXPECT_GE(head.length, 6 + 34 / 5);  // the window and the floor
        for (int32_t i = 1; i <= 6; ++i) EXPECT_EQ(head.position(head.length - i), f.store.next_position() - i);
      }
    }
    EXPECT_EQ(f.compressor.most_held(f.store), 40);
    EXPECT_EQ(*f.compressor.compress(*f.stream, f.store), 0);  // within its slots, however they are shared
    f.feed(1 + 5 * round);
  }
  EXPECT_TRUE(uneven);
}

// A layer whose kv_heads share unevenly holds their mean, not what the longest of them does: else it is given slots
// that it has not got, and others lose theirs.
TEST(Compressor, UnevenLayersOfUnevenHeadsUseTheWholeBudget) {
  policy::KvOptions options = latent(50, 6);
  options.share = policy::KvShare::kAdaptive;
  options.layers = policy::KvLayers::kEntropy;
  options.floor_share = 0;
  CompressedCache f(options, {0, 0});
  f.layer_sharpness = {0.2f, 12.0f};  // the first is to get nearly everything
  f.feed(90);
  KeepList latest(30);
  std::iota(latest.begin(), latest.end(), 60);
  ASSERT_TRUE(f.store.compact(0, 0, latest).ok());
  ASSERT_TRUE(f.compressor.compress(*f.stream, f.store).ok());
  EXPECT_EQ(f.store.length(0, 0) + f.store.length(0, 1), 30 + 90) << "all it has";
  EXPECT_EQ(f.store.length(1, 0) + f.store.length(1, 1), 200 - 120) << "the rest";
}

TEST(Compressor, LeavesACacheWithinItsBudgetAlone) {
  CompressedCache f(latent(20, 6), {0, 0});
  f.feed(20);
  const Result<int64_t> dropped = f.compressor.compress(*f.stream, f.store);
  ASSERT_TRUE(dropped.ok());
  EXPECT_EQ(*dropped, 0);
  EXPECT_TRUE(f.store.exact());
}

TEST(Compressor, TakesFromASlidingWindowOnlyWhatNobodyCanSee) {
  constexpr int32_t kWindow = 25;
  CompressedCache f(latent(20, 6), {0, kWindow});
  f.feed(100);
  const std::vector<float> before = f.attend(1, kWindow);
  ASSERT_TRUE(f.compressor.compress(*f.stream, f.store).ok());
  EXPECT_EQ(f.store.length(0, 0), 20);
  EXPECT_EQ(f.store.length(1, 0), kWindow - 1 + 6);  // the next token is one of its window; six for a rewind
  EXPECT_EQ(f.attend(1, kWindow), before);
  EXPECT_NE(f.attend(1, kWindow + 7), before);
  f.feed(1);
  EXPECT_EQ(f.compressor.most_held(f.store), 21);
}

TEST(Compressor, CountsOfASlidingWindowWhatLiesOutsideIt) {
  CompressedCache f(latent(20, 6), {25, 25});
  f.feed(40);
  EXPECT_EQ(f.compressor.most_held(f.store), 15);
  EXPECT_EQ(f.compressor.most_slots(10, 5), 15);
}

TEST(Rewind, GoesBehindTheLastGapOrInFrontOfTheFirst) {
  CompressedCache f(latent(20, 6), {0, 0});
  f.feed(60);
  const std::vector<int32_t> windows = {0, 0};
  for (const int32_t position : {0, 17, 60}) EXPECT_EQ(rewind_point(f.store, windows, position), position);
  // One head keeps 0 1 2 and the last ten, the other 0 1 2 3 and the last twenty; layer 0 keeps all.
  KeepList first = {0, 1, 2};
  for (int32_t slot = 50; slot < 60; ++slot) first.push_back(slot);
  KeepList second = {0, 1, 2, 3};
  for (int32_t slot = 40; slot < 60; ++slot) second.push_back(slot);
  ASSERT_TRUE(f.store.compact(1, 0, first).ok());
  ASSERT_TRUE(f.store.compact(1, 1, second).ok());
  for (const int32_t position : {60, 55, 50, 3, 2, 0}) EXPECT_EQ(rewind_point(f.store, windows, position), position);
  for (const int32_t position : {49, 45, 40, 20, 4}) EXPECT_EQ(rewind_point(f.store, windows, position), 3);
  ASSERT_TRUE(f.store.truncate(3).ok());
  EXPECT_TRUE(f.store.exact());
}

TEST(Rewind, NeedsTheWholeSlidingWindow) {
  CompressedCache f(latent(20, 6), {0, 10});
  f.feed(60);
  KeepList last;
  for (int32_t slot = 45; slot < 60; ++slot) last.push_back(slot);
  for (int h = 0; h < kKvHeads; ++h) ASSERT_TRUE(f.store.compact(1, h, last).ok());
  const std::vector<int32_t> windows = {0, 10};
  for (const int32_t position : {60, 57, 54, 0}) EXPECT_EQ(rewind_point(f.store, windows, position), position);
  for (const int32_t position : {53, 45, 30, 1}) EXPECT_EQ(rewind_point(f.store, windows, position), 0);
}

}  // namespace
}  // namespace ei::kv
