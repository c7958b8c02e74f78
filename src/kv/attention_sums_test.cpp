// H2O from a cache to what is left of it, again and again, against sums written out from the formula.
#include "kv/attention_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "policy/registry.h"
#include "support/compressed_cache.h"

namespace ei::kv {
namespace {

using testing::CompressedCache;
using testing::kDim;
using testing::kHeads;
using testing::kKvHeads;
using testing::kWidth;

constexpr int kShared = kHeads / kKvHeads;
constexpr int kLayers = 2;
constexpr int64_t kSlots = 41;  // a budget

policy::KvOptions h2o() {
  policy::KvOptions options = policy::find_kv_rule({"h2o"})->preset;
  options.keep_slots(kSlots);
  return options;
}

// What every query gave to every token that was still there when it came: sums[layer, head][position].
class Sums {
 public:
  // Queries [from, to) attend to what the cache holds now.
  void add(const CompressedCache& f, int32_t from, int32_t to) {
    for (int layer = 0; layer < kLayers; ++layer)
      for (int head = 0; head < kHeads; ++head)
        for (int32_t query = from; query < to; ++query) add_query(f, layer, head, query);
  }

  // The latest half of the budget, and of the others those with the largest mean over the heads of the kv_head.
  std::vector<int32_t> kept(const CompressedCache& f, int layer, int kv_head) const {
    const KvView view = f.store.view(layer);
    const KvHeadView& held = view.heads[static_cast<size_t>(kv_head)];
    std::vector<int32_t> positions;
    for (int64_t slot = 0; slot < held.length; ++slot) positions.push_back(held.position(slot));
    const auto recent = positions.end() - kSlots / 2;
    const auto worth = [&](int32_t position) {
      double sum = 0;
      for (int head = kv_head * kShared; head < (kv_head + 1) * kShared; ++head) {
        const auto& own = sums_[static_cast<size_t>(layer * kHeads + head)];
        if (const auto found = own.find(position); found != own.end()) sum += found->second;
      }
      return sum;
    };
    std::stable_sort(positions.begin(), recent, [&](int32_t a, int32_t b) { return worth(a) > worth(b); });
    positions.erase(positions.begin() + (kSlots - kSlots / 2), recent);
    std::sort(positions.begin(), positions.end());
    return positions;
  }

 private:
  void add_query(const CompressedCache& f, int layer, int head, int32_t query) {
    const KvView view = f.store.view(layer);
    const KvHeadView& held = view.heads[static_cast<size_t>(head / kShared)];
    std::vector<double> weights;
    double total = 0;
    for (int64_t slot = 0; slot < held.length && held.position(slot) <= query; ++slot) {
      const auto* key =
          static_cast<const float*>(held.key_pages[slot / view.page_slots]) + slot % view.page_slots * kDim;
      const float* q = f.queries.data() + query * kWidth + head * kDim;
      double product = 0;
      for (int64_t d = 0; d < kDim; ++d) product += static_cast<double>(q[d]) * static_cast<double>(key[d]);
      weights.push_back(std::exp(0.35 * product));
      total += weights.back();
    }
    for (size_t slot = 0; slot < weights.size(); ++slot)
      sums_[static_cast<size_t>(layer * kHeads + head)][held.position(static_cast<int64_t>(slot))] +=
          weights[slot] / total;
  }

  std::array<std::map<int32_t, double>, kLayers * kHeads> sums_;
};

std::vector<int32_t> held_positions(const Store& store, int layer, int kv_head) {
  const KvView view = store.view(layer);
  const KvHeadView& held = view.heads[static_cast<size_t>(kv_head)];
  std::vector<int32_t> positions;
  for (int64_t slot = 0; slot < held.length; ++slot) positions.push_back(held.position(slot));
  return positions;
}

void expect_compressed(CompressedCache& f, const Sums& sums) {
  std::vector<std::vector<int32_t>> expected;
  for (int layer = 0; layer < kLayers; ++layer)
    for (int h = 0; h < kKvHeads; ++h) expected.push_back(sums.kept(f, layer, h));
  ASSERT_TRUE(f.compressor.compress(*f.stream, f.store).ok());
  for (int layer = 0; layer < kLayers; ++layer)
    for (int h = 0; h < kKvHeads; ++h)
      EXPECT_EQ(held_positions(f.store, layer, h), expected[static_cast<size_t>(layer * kKvHeads + h)])
          << "layer " << layer << " kv_head " << h;
}

TEST(AttentionSums, HeavyHittersOfAllQueriesSoFarStayAndAsManyRecent) {
  for (const char* backend : {"cpu", "reference"}) {
    SCOPED_TRACE(backend);
    CompressedCache f(h2o(), {0, 0}, backend);
    Sums sums;
    f.feed(30);
    f.feed(170);
    sums.add(f, 0, 200);
    expect_compressed(f, sums);
    // What went takes no part any more; what stayed has what it got before.
    for (int32_t turn = 0; turn < 3; ++turn) {
      const int32_t first = f.store.next_position();
      for (int i = 0; i < 90; ++i) f.feed(1);
      sums.add(f, first, f.store.next_position());
      expect_compressed(f, sums);
    }
  }
}

TEST(AttentionSums, AFailedChunkAddsNothing) {
  CompressedCache f(h2o(), {0, 0});
  Sums sums;
  f.feed(100);
  f.feed(150, /*fails=*/true);
  f.feed(1, /*fails=*/true);
  f.feed(90);
  sums.add(f, 0, 190);
  expect_compressed(f, sums);
}

TEST(AttentionSums, ARewindOverTheLatestQueriesTakesThemBackAndAFurtherOneIsRefused) {
  CompressedCache f(h2o(), {0, 0});
  Sums sums;
  f.feed(150);
  for (int i = 0; i < 10; ++i) f.feed(1);
  EXPECT_EQ(f.compressor.rewind_point(120), 120);
  EXPECT_EQ(f.compressor.rewind_point(60), 0);
  f.rewind(120);
  f.feed(40);
  sums.add(f, 0, 160);
  expect_compressed(f, sums);
  EXPECT_EQ(f.compressor.rewind_point(160), 160);
  EXPECT_EQ(f.compressor.rewind_point(159), 0) << "what has been dropped was part of that query's attention";
}

TEST(AttentionSums, TravelWithTheCache) {
  CompressedCache f(h2o(), {0, 0});
  Sums sums;
  f.feed(130);
  sums.add(f, 0, 130);
  expect_compressed(f, sums);
  f.feed(75);
  sums.add(f, 130, 205);

  const std::string memory = f.compressor.memory(*f.stream).value();
  CompressedCache other(h2o(), {0, 0});
  ASSERT_TRUE(other.compressor.take(*other.stream, f.compressor).ok());
  ASSERT_TRUE(other.stream->synchronize().ok());
  Store fork = std::move(f.store.fork()).value();
  ASSERT_TRUE(other.compressor.compress(*other.stream, fork).ok());

  f.compressor.restart();
  EXPECT_FALSE(f.compressor.complete(205)) << "sums of nothing are none of this cache";
  EXPECT_TRUE(f.compressor.complete(0));
  EXPECT_FALSE(f.compressor.recall(*f.stream, memory.substr(0, memory.size() - 9)).ok());
  ASSERT_TRUE(f.compressor.recall(*f.stream, memory).ok());
  EXPECT_TRUE(f.compressor.complete(205));
  expect_compressed(f, sums);
  for (int layer = 0; layer < kLayers; ++layer)
    for (int h = 0; h < kKvHeads; ++h) EXPECT_EQ(held_positions(fork, layer, h), held_positions(f.store, layer, h));
}

TEST(AttentionSums, AViewIsLeftWithTheSumsOfTheWholeCache) {
  CompressedCache f(h2o(), {0, 0});
  Sums sums;
  f.feed(130);
  sums.add(f, 0, 130);
  ASSERT_TRUE(f.compressor.begin_view(*f.stream, f.store).ok());
  Store view = std::move(f.store.fork()).value();
  ASSERT_TRUE(f.compressor.compress(*f.stream, view).ok());
  EXPECT_FALSE(view.exact());
  f.compressor.rewound(f.store);
  f.feed(70);
  sums.add(f, 130, 200);
  expect_compressed(f, sums);
}

TEST(AttentionSums, AreForMethodsThatScoreByAttention) {
  for (const char* name : {"expected", "streaming", "keydiff"}) {
    policy::KvOptions options = policy::find_kv_rule({name})->preset;
    options.queries = policy::QuerySource::kAll;
    EXPECT_FALSE(policy::make_kv_method(options, {})->check().ok()) << name;
  }
  policy::KvOptions options = policy::find_kv_rule({"snapkv"})->preset;
  options.queries = policy::QuerySource::kAll;
  EXPECT_TRUE(policy::make_kv_method(options, {})->check().ok());
}

}  // namespace
}  // namespace ei::kv
