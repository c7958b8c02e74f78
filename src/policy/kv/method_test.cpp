// The stages of a KV method, against what the words say.
#include "policy/kv/method.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(make_kv_method(options, shape)->most_kept(), 3);
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
  EXPECT_EQ(method->layer_budgets(Counts{120, 120, 120}), (Counts{120, 120, 120}));
  EXPECT_EQ(method->layer_budgets(Counts{900, 900, 900}), (Counts{215, 120, 25}));
}

TEST(KvOptions, RefuseABudgetInsideTheWindow) {
  EXPECT_TRUE(validate(KvOptions{}).ok());
  EXPECT_FALSE(validate(KvOptions{.budget = 32, .window = 32}).ok());
  EXPECT_FALSE(validate(KvOptions{.kernel = 4}).ok());
  EXPECT_FALSE(validate(KvOptions{.gap = -2}).ok());
  EXPECT_FALSE(validate(KvOptions{.budget = 40, .window = 32, .sinks = 9}).ok());
}

}  // namespace
}  // namespace ei::policy
