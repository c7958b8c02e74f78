// Entropy-guided KV caching, from recorded queries to what is left of the cache, against the formula written out.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "policy/registry.h"
#include "support/compressed_cache.h"

namespace ei::kv {
namespace {

using testing::attention_of;
using testing::CompressedCache;
using testing::kHeads;
using testing::kKvHeads;

using Doubles = std::vector<double>;

struct Measured {
  double entropy = 0;  // mean over heads and queries
  Doubles scores;      // [slots]: attention, mean over heads and queries
};

Measured measure(const CompressedCache& f, int layer, const std::vector<int32_t>& positions) {
  Measured measured{.scores = Doubles(static_cast<size_t>(f.store.length(layer, 0)))};
  const double share = 1.0 / (static_cast<double>(positions.size()) * kHeads);
  for (const int32_t position : positions) {
    for (int64_t head = 0; head < kHeads; ++head) {
      const Doubles weights = attention_of(f, layer, head, position);
      for (size_t slot = 0; slot < weights.size(); ++slot) {
        measured.scores[slot] += share * weights[slot];
        measured.entropy -= share * weights[slot] * std::log(weights[slot]);
      }
    }
  }
  return measured;
}

// The best slots outside the window and the window.
std::vector<int32_t> best_of(const Doubles& scores, int64_t budget, int64_t window) {
  const auto slots = static_cast<int64_t>(scores.size());
  std::vector<int32_t> order(static_cast<size_t>(slots - window));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(budget - window));
  for (int64_t slot = slots - window; slot < slots; ++slot) order.push_back(static_cast<int32_t>(slot));
  std::sort(order.begin(), order.end());
  return order;
}

policy::KvOptions entropy_kv(policy::QuerySource queries) {
  policy::KvOptions options = policy::find_kv_rule({"entropy-kv"})->preset;
  options.window = 6;
  options.queries = queries;
  options.samples = 16;
  return options;
}

// Four layers of keys of different lengths, so that some attend sharply; one with a sliding window takes no part.
void check_against_the_formula(policy::QuerySource queries, const std::string& budget_text) {
  policy::KvOptions options = entropy_kv(queries);
  ASSERT_TRUE(policy::set_budget(options, budget_text).ok());
  CompressedCache f(options, {0, 0, 25, 0});
  f.layer_sharpness = {0.3f, 1.0f, 1.0f, 4.0f};
  f.feed(50);
  f.feed(70);
  const std::vector<int32_t> positions = f.compressor.observer().positions();
  ASSERT_EQ(positions.size(), queries == policy::QuerySource::kLast ? 6u : 15u);
  const std::vector<int> layers = {0, 1, 3};
  constexpr int64_t kBudget = 30;
  std::vector<Measured> measured;
  double entropies = 0;
  for (const int layer : layers) {
    measured.push_back(measure(f, layer, positions));
    entropies += measured.back().entropy;
  }
  const int64_t bytes = f.store.bytes();
  ASSERT_TRUE(f.compressor.compress(*f.stream, f.store).ok());
  EXPECT_LT(f.store.bytes(), bytes) << "memory is freed";
  int64_t held = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const int64_t length = f.store.length(layers[i], 0);
    held += length;
    constexpr double kFloor = 6;  // a fifth of 30, and the window
    EXPECT_NEAR(static_cast<double>(length), kFloor + 3 * (kBudget - kFloor) * measured[i].entropy / entropies, 1.0);
    const std::vector<int32_t> expected = best_of(measured[i].scores, length, 6);
    for (int h = 0; h < kKvHeads; ++h) {
      const KvHeadView& head = f.store.view(layers[i]).heads[static_cast<size_t>(h)];
      ASSERT_EQ(head.length, length) << "one set for all heads";
      for (int64_t slot = 0; slot < length; ++slot) EXPECT_EQ(head.position(slot), expected[static_cast<size_t>(slot)]);
    }
  }
  EXPECT_EQ(held, 3 * kBudget) << "the sum is exact";
  EXPECT_GT(f.store.length(0, 0), f.store.length(3, 0)) << "the layer that spreads keeps more";
  EXPECT_EQ(f.store.length(2, 0), 25 - 1 + 6) << "a sliding window keeps what can be seen";
}

TEST(EntropyKv, IsTheFormulaOfTheLastQueries) { check_against_the_formula(policy::QuerySource::kLast, "30"); }
TEST(EntropyKv, IsTheFormulaOfASampleOfAll) { check_against_the_formula(policy::QuerySource::kSampled, "30"); }
TEST(EntropyKv, TakesAShareOfTheText) { check_against_the_formula(policy::QuerySource::kLast, "25%"); }
TEST(EntropyKv, TakesBytes) {
  // 30 slots of two kv_heads in three layers, a key and a value of eight floats each.
  check_against_the_formula(policy::QuerySource::kLast, "11520B");
}

TEST(EntropyKv, KeepsOneSetThroughManyRounds) {
  policy::KvOptions options = entropy_kv(policy::QuerySource::kLast);
  options.keep_slots(40);
  options.repeat = 16;
  CompressedCache f(options, {0, 0});
  f.layer_sharpness = {0.3f, 4.0f};
  f.feed(90);
  for (int round = 0; round < 5; ++round) {
    ASSERT_GT(f.compressor.most_held(f.store), 40);
    ASSERT_TRUE(f.compressor.compress(*f.stream, f.store).ok());
    EXPECT_EQ(f.store.length(0, 0) + f.store.length(1, 0), 80);
    EXPECT_EQ(f.compressor.most_held(f.store), 40);
    for (int layer = 0; layer < 2; ++layer)
      for (int64_t slot = 0; slot < f.store.length(layer, 0); ++slot)
        ASSERT_EQ(f.store.view(layer).heads[0].position(slot), f.store.view(layer).heads[1].position(slot));
    f.feed(1 + 5 * round);
  }
}

}  // namespace
}  // namespace ei::kv
