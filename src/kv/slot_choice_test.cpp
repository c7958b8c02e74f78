// A stream that rates and chooses slots itself does what the host would: the reference against policy/kv/ranking.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/backend.h"
#include "base/random.h"
#include "policy/kv/head_share.h"
#include "policy/kv/ranking.h"
#include "policy/registry.h"
#include "support/compressed_cache.h"

namespace ei::kv {
namespace {

struct Layer {
  policy::KvOptions options;
  std::vector<int64_t> slots;
  int32_t group = 1;
  std::vector<int32_t> counts;
};

std::vector<Layer> layers() {
  std::vector<Layer> all;
  for (const auto pooling : {policy::Pooling::kAverage, policy::Pooling::kMax}) {
    for (const auto aggregate : {policy::GroupAggregate::kMean, policy::GroupAggregate::kMax}) {
      for (const int32_t kernel : {1, 5, 31}) {
        policy::KvOptions options;
        options.pooling = pooling;
        options.aggregate = aggregate;
        options.kernel = kernel;
        options.sinks = kernel == 5 ? 4 : 0;
        all.push_back({options, {300, 0, 17, 1}, 3, {64, 5, 40, 1}});
        all.push_back({options, {129}, 8, {128}});
      }
    }
  }
  return all;
}

TEST(SlotChoice, IsWhatTheHostWouldChoose) {
  const std::unique_ptr<Backend> backend = create_backend("reference", {}).value();
  const std::unique_ptr<Stream> stream = backend->new_stream(nullptr).value();
  ASSERT_TRUE(stream->chooses_slots());
  Random random(5);
  for (const Layer& layer : layers()) {
    SCOPED_TRACE(layer.options.kernel);
    const auto sets = static_cast<int64_t>(layer.slots.size());
    const int64_t stride = *std::max_element(layer.slots.begin(), layer.slots.end());
    std::vector<float> scores(static_cast<size_t>(sets * layer.group * stride));
    for (float& score : scores) score = static_cast<float>(random.below(40)) / 7;  // many are equal
    std::vector<float> ratings(static_cast<size_t>(sets * stride), -1.0f);
    std::vector<int32_t> chosen(ratings.size(), -1);
    stream->rate_slots({.scores = scores.data(),
                        .stride = stride,
                        .group = layer.group,
                        .slots = layer.slots,
                        .mean_of_group = layer.options.aggregate == policy::GroupAggregate::kMean,
                        .mean_of_near = layer.options.pooling == policy::Pooling::kAverage,
                        .kernel = layer.options.kernel,
                        .sinks = layer.options.sinks,
                        .ratings = ratings.data()});
    stream->choose_slots({.ratings = ratings.data(),
                          .slots = layer.slots,
                          .counts = layer.counts.data(),
                          .chosen = chosen.data(),
                          .stride = stride});
    ASSERT_TRUE(stream->synchronize().ok());
    auto rated = ratings.begin();
    for (int64_t set = 0; set < sets; ++set) {
      const int64_t slots = layer.slots[static_cast<size_t>(set)];
      policy::SlotScores expected =
          policy::pooled_scores(layer.options, {.scores = &scores[static_cast<size_t>(set * layer.group * stride)],
                                                .stride = stride,
                                                .group = layer.group,
                                                .slots = slots});
      std::fill_n(expected.begin(), std::min<int64_t>(layer.options.sinks, slots), std::numeric_limits<float>::max());
      EXPECT_EQ(policy::SlotScores(rated, rated + slots), expected);
      rated += slots;
      const KeepList list = policy::keep_best_and_recent(expected, layer.counts[static_cast<size_t>(set)], slots);
      const auto* from = &chosen[static_cast<size_t>(set * stride)];
      const int64_t count = std::min<int64_t>(layer.counts[static_cast<size_t>(set)], slots);
      EXPECT_EQ(KeepList(from, from + count), list);
    }
  }
}

TEST(SlotChoice, OfEveryMethodIsTheHosts) {
  std::vector<policy::KvOptions> all;
  for (const policy::KvEntry& entry : policy::kv_rules())
    if (entry.preset.rule != policy::KvRule::kKeepAll) all.push_back(entry.preset);
  all.push_back({.rule = policy::KvRule::kLatent, .share = policy::KvShare::kAdaptive, .sinks = 3});
  all.push_back({.rule = policy::KvRule::kLatent, .granularity = policy::KvGranularity::kHead});
  all.push_back({.rule = policy::KvRule::kLatent, .granularity = policy::KvGranularity::kLayer});
  for (const policy::KvLayers layers : {policy::KvLayers::kPyramid, policy::KvLayers::kEntropy})
    all.push_back({.rule = policy::KvRule::kLatent, .layers = layers});
  policy::KvOptions expected = policy::find_kv_rule({"expected"})->preset;
  expected.layers = policy::KvLayers::kEntropy;  // measured beside what it scores by
  all.push_back(expected);
  for (policy::KvOptions options : all) {
    SCOPED_TRACE(options.rule.name);
    options.keep_slots(24);
    options.window = std::min(options.window, 6);
    std::vector<std::vector<int32_t>> held[2];
    for (const int side : {0, 1}) {
      testing::CompressedCache cache(options, {0, 0, 0}, side == 0 ? "cpu" : "reference");
      cache.layer_sharpness = {1, 3, 0.5f};
      for (int round = 0; round < 3; ++round) {
        cache.feed(round == 0 ? 70 : 11);
        ASSERT_TRUE(cache.compressor.compress(*cache.stream, cache.store).ok());
        for (int layer = 0; layer < 3; ++layer) {
          for (const KvHeadView& head : cache.store.view(layer).heads) {
            std::vector<int32_t>& positions = held[side].emplace_back();
            for (int64_t slot = 0; slot < head.length; ++slot) positions.push_back(head.position(slot));
          }
        }
      }
    }
    EXPECT_EQ(held[0], held[1]);
    EXPECT_LT(held[0].front().size(), 70u) << "something was dropped";
  }
}

TEST(SlotChoice, OfAllSetsTogetherCountsWhatEachHas) {
  const std::vector<policy::SlotScores> sets = {{5, 1, 4}, {}, {3, 3, 9, 0}};
  const std::vector<int64_t> slots = {3, 0, 4};
  const std::vector<int32_t> best = {0, 2, 5};  // 5, 4 and 9, counted through
  EXPECT_EQ(policy::counts_among(best, slots), policy::top_counts(sets, 3));
  policy::KvOptions options;
  EXPECT_EQ(policy::share_slots(options, policy::top_counts(sets, 3), slots, 1), policy::share_slots(options, sets, 1));
}

}  // namespace
}  // namespace ei::kv
