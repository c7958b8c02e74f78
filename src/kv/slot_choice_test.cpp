// A stream that rates and chooses slots itself does what the host would: the reference against policy/kv/ranking.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/backend.h"
#include "base/random.h"
#include "kv/stream_choice.h"
#include "policy/kv/head_share.h"
#include "policy/kv/ranking.h"
#include "policy/registry.h"
#include "support/compressed_cache.h"
#include "support/measuring_stream.h"

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

TEST(SlotChoice, LeavesOutWhatWasChosenBefore) {
  const std::unique_ptr<Backend> backend = create_backend("reference", {}).value();
  const std::unique_ptr<Stream> stream = backend->new_stream(nullptr).value();
  std::vector<float> ratings = {4, 9, 1, 7, 3, 2, 8};  // of sets of four, none and three
  const std::vector<int64_t> slots = {4, 0, 3};
  const std::vector<int32_t> counts = {2, 1, 1};
  std::vector<int32_t> chosen(6, -1);
  const auto choose = [&](int32_t* to) {
    stream->choose_slots(
        {.ratings = ratings.data(), .slots = slots, .counts = counts.data(), .chosen = to, .stride = 2});
  };
  choose(chosen.data());
  EXPECT_EQ(chosen, (std::vector<int32_t>{1, 3, -1, -1, 2, -1}));
  stream->leave_out_slots(
      {.chosen = chosen.data(), .counts = counts.data(), .stride = 2, .slots = slots, .ratings = ratings.data()});
  choose(chosen.data());
  EXPECT_EQ(chosen, (std::vector<int32_t>{0, 2, -1, -1, 0, -1}));
}

TEST(SlotChoice, SpreadsAreTheHosts) {
  const std::unique_ptr<Backend> backend = create_backend("reference", {}).value();
  const std::unique_ptr<Stream> stream = backend->new_stream(nullptr).value();
  Random random(5);
  std::vector<float> ratings(907);
  for (float& one : ratings) one = std::exp(3 * random.normal());
  const std::vector<int64_t> slots = {500, 0, 3, 404};
  std::vector<float> spreads(slots.size(), -1);
  stream->spread_slots({.ratings = ratings.data(), .slots = slots, .first = 4, .spreads = spreads.data()});
  const float* from = ratings.data();
  for (size_t set = 0; set < slots.size(); ++set) {
    const auto size = static_cast<size_t>(slots[set]);
    EXPECT_EQ(spreads[set], static_cast<float>(policy::spread_of({from, size}, 4)));
    from += size;
  }
  EXPECT_EQ(spreads[2], 0) << "none counts";
}

// Presets of all methods, and stages over them.
std::vector<policy::KvOptions> composed() {
  std::vector<policy::KvOptions> all;
  for (const policy::KvEntry& entry : policy::kv_rules())
    if (entry.preset.rule != policy::KvRule::kKeepAll) all.push_back(entry.preset);
  all.push_back({.rule = policy::KvRule::kLatent, .share = policy::KvShare::kAdaptive, .sinks = 3});
  all.push_back({.rule = policy::KvRule::kLatent, .granularity = policy::KvGranularity::kHead});
  all.push_back({.rule = policy::KvRule::kLatent, .granularity = policy::KvGranularity::kLayer});
  for (const policy::KvLayers layers : {policy::KvLayers::kPyramid, policy::KvLayers::kEntropy})
    all.push_back({.rule = policy::KvRule::kLatent, .layers = layers});
  for (const char* name : {"h2o", "keydiff", "knorm", "expected"}) {
    const policy::KvOptions preset = policy::find_kv_rule({name})->preset;
    all.insert(all.end(), 6, preset);
    const auto variants = all.end() - 6;
    variants[0].layers = policy::KvLayers::kEntropy;  // measured beside what it scores by
    variants[1].layers = policy::KvLayers::kPyramid;
    variants[2].share = policy::KvShare::kAdaptive;
    variants[3].granularity = policy::KvGranularity::kLayer;
    variants[4].granularity = policy::KvGranularity::kHead;
    variants[5].kernel = 5;
  }
  // A share of the slots by keys, the others by attention.
  for (const policy::KvShare share : {policy::KvShare::kFlat, policy::KvShare::kAdaptive})
    for (const policy::KvGranularity who : {policy::KvGranularity::kKvHead, policy::KvGranularity::kLayer})
      for (const double part : {0.3, 0.9})
        for (const double attended : {0.0, 0.4})
          all.push_back({.rule = policy::KvRule::kLatent,
                         .share = share,
                         .key_share = part,
                         .attended = attended,
                         .granularity = who});
  for (policy::KvOptions& options : all) {
    options.keep_slots(24);
    options.window = std::min(options.window, 6);
  }
  return all;
}

enum class Choosing : uint8_t { kHost, kStream, kStreamThatMeasures };

// Positions that each kv_head of each layer holds behind each of three compressions.
std::vector<std::vector<int32_t>> held_behind(const policy::KvOptions& options, Choosing choosing) {
  testing::CompressedCache cache(options, {0, 0, 0}, choosing == Choosing::kHost ? "cpu" : "reference");
  if (choosing == Choosing::kStreamThatMeasures)
    cache.stream =
        std::make_unique<testing::MeasuringStream>(testing::make_backend("reference"), std::move(cache.stream));
  cache.layer_sharpness = {1, 3, 0.5f};
  std::vector<std::vector<int32_t>> held;
  for (int round = 0; round < 3; ++round) {
    cache.feed(round == 0 ? 70 : 11);
    EXPECT_TRUE(cache.compressor.compress(*cache.stream, cache.store).ok());
    for (int layer = 0; layer < 3; ++layer) {
      for (const KvHeadView& head : cache.store.view(layer).heads) {
        std::vector<int32_t>& positions = held.emplace_back();
        for (int64_t slot = 0; slot < head.length; ++slot) positions.push_back(head.position(slot));
      }
    }
  }
  return held;
}

TEST(SlotChoice, OfEveryMethodIsTheHosts) {
  for (const policy::KvOptions& options : composed()) {
    SCOPED_TRACE(::testing::Message() << options.rule.name << " layers " << policy::kv_layers_name(options.layers)
                                      << " share " << policy::kv_share_name(options.share) << " of each "
                                      << policy::kv_granularity_name(options.granularity) << " kernel "
                                      << options.kernel);
    const auto held = held_behind(options, Choosing::kHost);
    EXPECT_EQ(held_behind(options, Choosing::kStream), held);
    EXPECT_EQ(held_behind(options, Choosing::kStreamThatMeasures), held);
    EXPECT_LT(held.front().size(), 70u) << "something was dropped";
  }
}

// Where nothing is measured there is nothing to rate: scores are named by the method.
TEST(SlotChoice, IsTheStreamsForEveryMethodThatMeasures) {
  const std::unique_ptr<Backend> backend = create_backend("reference", {}).value();
  const std::unique_ptr<Stream> stream = backend->new_stream(nullptr).value();
  for (const policy::KvEntry& entry : policy::kv_rules()) {
    if (entry.preset.rule == policy::KvRule::kKeepAll) continue;
    SCOPED_TRACE(entry.name);
    const auto method = policy::make_kv_method(entry.preset, {.layers = 2, .heads = 4, .kv_heads = 2});
    const policy::KvNeeds needs = method->needs();
    const bool measures = needs.queries != policy::QuerySource::kNone || needs.keys != policy::KeyMeasure::kNone;
    EXPECT_EQ(StreamChoice::serves(*stream, *method), measures);
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
