// The stages of a KV method, against what the words say.
#include "policy/kv/method.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ei::policy {
namespace {

using Floats = std::vector<float>;
using Counts = std::vector<int64_t>;

KvOptions plain(int32_t budget, int32_t window) {
  return {.rule = KvRule::kLatent, .budget = budget, .window = window, .kernel = 1};
}

// Rates one layer of `lengths` slots; attention: [heads, stride].
std::vector<KeepList> kept(const KvOptions& options, const KvShape& shape, const Floats& attention,
                           const Counts& lengths) {
  const auto method = make_kv_method(options, shape);
  const int64_t stride = static_cast<int64_t>(attention.size()) / shape.heads;
  return method->keep(method->rate({.layer = 0, .lengths = lengths, .attention = attention.data(), .stride = stride}),
                      options.budget);
}

TEST(KvMethod, KeepsTheBestAndTheWindow) {
  const Floats attention = {5, 4, 3, 9, 1, 7, 7};
  EXPECT_EQ(kept(plain(4, 2), {}, attention, {7})[0], (KeepList{0, 3, 5, 6}));
  EXPECT_TRUE(kept(plain(7, 2), {}, attention, {7})[0].empty()) << "everything stays";
  EXPECT_TRUE(kept(plain(4, 2), {}, attention, {1})[0].empty()) << "less than the window";
}

TEST(KvMethod, GroupsChooseTogetherOrEachHeadForItself) {
  // Two heads of one kv_head: the mean prefers slot 1, each on its own slot 0 and slot 2.
  const KvShape shape{.layers = 1, .heads = 2, .kv_heads = 1};
  const Floats attention = {9, 6, 0, 0, 1, /**/ 0, 6, 9, 0, 1};
  KvOptions options = plain(2, 1);
  EXPECT_EQ(kept(options, shape, attention, {5})[0], (KeepList{1, 4}));
  options.granularity = KvGranularity::kHead;
  EXPECT_EQ(kept(options, shape, attention, {5})[0], (KeepList{0, 2, 4}));
  EXPECT_EQ(make_kv_method(options, shape)->most_kept(2), 3);
}

TEST(KvMethod, OneSetOfALayerIsChosenByAllItsHeads) {
  // Two kv_heads of one head each: slot 1 is nobody's best and everybody's second.
  const KvShape shape{.layers = 1, .heads = 2, .kv_heads = 2};
  const Floats attention = {9, 6, 0, 0, 1, /**/ 0, 6, 9, 0, 1};
  KvOptions options = plain(2, 1);
  options.granularity = KvGranularity::kLayer;
  EXPECT_EQ(kept(options, shape, attention, {5, 5}), (std::vector<KeepList>{{1, 4}, {1, 4}}));
  // kv_heads that hold other positions, after another method, choose for themselves.
  const auto method = make_kv_method(options, shape);
  const Counts lengths = {5, 4};
  const LayerRating rating =
      method->rate({.layer = 0, .lengths = lengths, .attention = attention.data(), .stride = 5, .aligned = false});
  EXPECT_EQ(method->keep(rating, 2), (std::vector<KeepList>{{0, 4}, {2, 3}}));
}

TEST(KvMethod, BudgetsAreSlotsOrAShareOfTheTextOrBytes) {
  const KvShape shape{.layers = 4, .heads = 2, .kv_heads = 2, .slot_bytes = 256};
  KvOptions options = plain(100, 8);
  EXPECT_EQ(make_kv_method(options, shape)->budget_at(1000), 100);
  ASSERT_TRUE(set_budget(options, "20%").ok());
  EXPECT_EQ(make_kv_method(options, shape)->budget_at(1001), 201) << "rounded up";
  EXPECT_EQ(make_kv_method(options, shape)->budget_at(10), 9) << "the window and one more";
  ASSERT_TRUE(set_budget(options, "64KiB").ok());
  EXPECT_EQ(make_kv_method(options, shape)->budget_at(1000), 32) << "64 KiB over 8 kv_heads of 256 bytes a slot";
  EXPECT_TRUE(make_kv_method(options, shape)->check().ok());
  options.window = 32;
  EXPECT_EQ(make_kv_method(options, shape)->check().error().message,
            "a KV budget of 64KiB is 32 slots per kv_head of this model; window and sinks need 33");
}

TEST(KvMethod, MeasuresEntropiesWhereTheyDivideTheLayers) {
  KvOptions options = plain(100, 8);
  EXPECT_FALSE(make_kv_method(options, {})->needs().row_entropy);
  options.layers = KvLayers::kEntropy;
  options.queries = QuerySource::kSampled;
  EXPECT_TRUE(make_kv_method(options, {})->needs().row_entropy);
  EXPECT_EQ(make_kv_method(options, {})->needs().queries, QuerySource::kSampled);
  const Floats attention(3 * 20, 1.0f);
  const Floats entropies = {1, 2, 6};
  const Counts lengths = {20};
  const LayerRating rating =
      make_kv_method(options, {.layers = 1, .heads = 3, .kv_heads = 1})
          ->rate(
              {.layer = 0, .lengths = lengths, .attention = attention.data(), .stride = 20, .row_entropy = entropies});
  EXPECT_DOUBLE_EQ(rating.entropy, 3);
}

TEST(KvMethod, TheEntropyBehindTheSinksIsThatOfTheRestAlone) {
  KvOptions options = plain(100, 2);
  options.layers = KvLayers::kEntropyRest;
  const auto method = make_kv_method(options, {});
  const Floats attention = {0.5f, 0.1f, 0.05f, 0.05f, 0.15f, 0.075f, 0.05f, 0.025f};
  const auto entropy_from = [&](size_t first, double mass) {
    double entropy = 0;
    for (size_t i = first; i < attention.size(); ++i) entropy -= attention[i] / mass * std::log(attention[i] / mass);
    return entropy;
  };
  const Floats entropies = {static_cast<float>(entropy_from(0, 1))};
  const Counts lengths = {8};
  const LayerRating rating = method->rate(
      {.layer = 0, .lengths = lengths, .attention = attention.data(), .stride = 8, .row_entropy = entropies});
  EXPECT_NEAR(rating.rest_entropy, entropy_from(4, 0.3), 1e-5);
  EXPECT_NEAR(rating.state(8).rest_entropy, rating.rest_entropy, 0);
  // All on the sinks: nothing is left to be spread.
  const Floats on_sinks = {1, 0, 0, 0, 0, 0, 0, 0};
  const Floats none = {0};
  EXPECT_EQ(
      method->rate({.layer = 0, .lengths = lengths, .attention = on_sinks.data(), .stride = 8, .row_entropy = none})
          .rest_entropy,
      0);
}

TEST(KvMethod, AdaptiveSharesGoWhereTheBestScoresAre) {
  const KvShape shape{.layers = 1, .heads = 2, .kv_heads = 2};
  const Floats attention = {9, 8, 7, 6, 0, /**/ 1, 2, 3, 4, 0};
  KvOptions options = plain(3, 1);
  options.share = KvShare::kAdaptive;
  options.floor_share = 0;
  const std::vector<KeepList> keeps = kept(options, shape, attention, {5, 5});
  EXPECT_TRUE(keeps[0].empty());
  EXPECT_EQ(keeps[1], (KeepList{4}));
}

// Two kv_heads with the same mean attention. The first one's queries all look at all of it, the second one's each at
// its own part, with an entropy of ln 4 less: four times as many slots, on a floor.
TEST(KvMethod, DistinctSharesGoWhereQueriesLookAtDifferentSlots) {
  const KvShape shape{.layers = 1, .heads = 2, .kv_heads = 2};
  const Floats attention(40, 0.05f);
  const Floats entropies = {std::log(20.0f), std::log(5.0f)};
  const Counts lengths = {20, 20};
  KvOptions options = plain(6, 1);
  options.share = KvShare::kDistinct;
  options.floor_share = 0;
  const auto method = make_kv_method(options, shape);
  EXPECT_TRUE(method->needs().row_entropy);
  const LayerRating rating = method->rate(
      {.layer = 0, .lengths = lengths, .attention = attention.data(), .stride = 20, .row_entropy = entropies});
  std::vector<KeepList> keeps = method->keep(rating, 6);
  EXPECT_EQ(keeps[0].size(), 2u + 1u);
  EXPECT_EQ(keeps[1].size(), 8u + 1u);
  options.floor_share = 0.6;
  keeps = make_kv_method(options, shape)->keep(rating, 6);
  EXPECT_EQ(keeps[0].size(), 4u + 1u) << "3 + 4 / 5";
  EXPECT_EQ(keeps[1].size(), 6u + 1u) << "3 + 4 * 4 / 5";
}

TEST(KvMethod, SinksAreProtectedAndCounted) {
  KvOptions options = plain(4, 1);
  options.sinks = 2;
  EXPECT_EQ(kept(options, {}, {0, 0, 5, 9, 7, 1}, {6})[0], (KeepList{0, 1, 3, 5}));
}

TEST(KvMethod, ComparesTheLongestOrTheMean) {
  KvOptions options = plain(4, 1);
  const KvShape shape{.layers = 1, .heads = 3, .kv_heads = 3};
  EXPECT_EQ(make_kv_method(options, shape)->held(Counts{3, 9, 5}), 9);
  options.share = KvShare::kAdaptive;
  EXPECT_EQ(make_kv_method(options, shape)->held(Counts{3, 9, 5}), 6) << "17 / 3, rounded up";
}

TEST(KvMethod, APyramidStaysFlatWhileEverythingFits) {
  KvOptions options = plain(120, 20);
  options.layers = KvLayers::kPyramid;
  const auto method = make_kv_method(options, {.layers = 3});
  EXPECT_EQ(method->layer_budgets(120, std::vector<LayerState>(3, {.held = 120})), (Counts{120, 120, 120}));
  EXPECT_EQ(method->layer_budgets(120, std::vector<LayerState>(3, {.held = 900})), (Counts{215, 120, 25}));
}

TEST(KvOptions, RefuseABudgetInsideTheWindow) {
  EXPECT_TRUE(validate(KvOptions{}).ok());
  EXPECT_FALSE(validate(KvOptions{.budget = 32, .window = 32}).ok());
  EXPECT_FALSE(validate(KvOptions{.kernel = 4}).ok());
  EXPECT_FALSE(validate(KvOptions{.gap = -2}).ok());
  EXPECT_FALSE(validate(KvOptions{.budget = 40, .window = 32, .sinks = 9}).ok());
}

TEST(KvOptions, BudgetsHaveUnits) {
  KvOptions options;
  for (const char* text : {"20%", "12.5%", "512KiB", "700B", "300", "0.1%", "1024+10%"}) {
    ASSERT_TRUE(set_budget(options, text).ok()) << text;
    EXPECT_EQ(budget_text(options), text);
  }
  EXPECT_EQ(options.budget_base, 1024);
  ASSERT_TRUE(set_budget(options, "10%").ok());
  EXPECT_EQ(options.budget_base, 0) << "a share alone is exact";
  ASSERT_TRUE(set_budget(options, "2GiB").ok());
  EXPECT_EQ(options.budget_bytes, int64_t{2} << 30);
  ASSERT_TRUE(set_budget(options, "300").ok());
  EXPECT_EQ(options.budget_bytes, 0);
  for (const char* text : {"", "%", "0%", "101%", "MiB", "0", "-3", "3 %", "1.5MiB", "4MB", "9999999999GiB", "+10%",
                           "1024+", "1024+10", "-5+10%", "0+10%", "10%+1024"}) {
    EXPECT_FALSE(set_budget(options, text).ok()) << text;
    EXPECT_EQ(budget_text(options), "300") << "as it was";
  }
}

}  // namespace
}  // namespace ei::policy
