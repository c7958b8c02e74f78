#include "policy/kv/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "policy/kv/schedule.h"

namespace ei::policy {
namespace {

using Floats = std::vector<float>;

Floats pooled(const Floats& scores, Pooling pooling, int32_t kernel) {
  Floats out(scores.size());
  pool_scores(scores, pooling, kernel, out);
  return out;
}

TEST(Recipe, AveragesWithZerosOutsideAndTheWholeKernelBelow) {
  EXPECT_EQ(pooled({3, 6, 9, 12}, Pooling::kAverage, 3), (Floats{3, 6, 9, 7}));
  EXPECT_EQ(pooled({5}, Pooling::kAverage, 5), Floats{1});
}

TEST(Recipe, TakesTheMaximumOfNegativeScoresToo) {
  EXPECT_EQ(pooled({-3, -6, -9, -1}, Pooling::kMax, 3), (Floats{-3, -3, -1, -1}));
}

TEST(Recipe, AggregatesAGroupByMeanOrMaximum) {
  const Floats rows = {1, 8, 99, 3, 2, 99};
  const GroupScores scores{.scores = rows.data(), .stride = 3, .group = 2, .slots = 2};
  Floats out(2);
  aggregate_group(scores, GroupAggregate::kMean, out);
  EXPECT_EQ(out, (Floats{2, 5}));
  aggregate_group(scores, GroupAggregate::kMax, out);
  EXPECT_EQ(out, (Floats{3, 8}));
}

TEST(Recipe, KeepsTheBestTheLowerOfEqualsAndTheRecent) {
  EXPECT_EQ(keep_best_and_recent(Floats{1, 5, 5, 5, 0}, 2, 7), (KeepList{1, 2, 5, 6}));
  EXPECT_EQ(keep_best_and_recent(Floats{1, 2}, 0, 3), (KeepList{2}));
}

TEST(Recipe, KeepsEverythingUpToTheBudget) {
  const KvOptions options{.rule = KvRule::kLatent, .budget = 6, .window = 2, .kernel = 1};
  const Floats row = {5, 4, 3, 2, 1};
  EXPECT_EQ(keep_list(options, {.scores = row.data(), .stride = 5, .group = 1, .slots = 3}, 5),
            (KeepList{0, 1, 2, 3, 4}));
  EXPECT_EQ(keep_list(options, {.scores = row.data(), .stride = 5, .group = 1, .slots = 4}, 6),
            (KeepList{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(keep_list(options, {.scores = row.data(), .stride = 5, .group = 1, .slots = 5}, 7),
            (KeepList{0, 1, 2, 3, 5, 6}));
}

TEST(Recipe, RefusesABudgetInsideTheWindow) {
  EXPECT_TRUE(validate(KvOptions{}).ok());
  EXPECT_FALSE(validate(KvOptions{.budget = 32, .window = 32}).ok());
  EXPECT_FALSE(validate(KvOptions{.kernel = 4}).ok());
  EXPECT_FALSE(validate(KvOptions{.gap = -2}).ok());
}

TEST(Recipe, FillsTheWindowWithPromptAndGeneratedQueries) {
  EXPECT_EQ(prompt_queries({.rule = KvRule::kLatent, .gap = 16, .window = 32}), 16);
  EXPECT_EQ(prompt_queries({.rule = KvRule::kLatent, .gap = -1, .window = 32}), 32);
  EXPECT_EQ(prompt_queries({.rule = KvRule::kLatent, .gap = 40, .window = 32}), 0);
  EXPECT_EQ(prompt_queries({.rule = KvRule::kKeepAll}), 0);
}

// Generated-token counts at which a session with this prompt compresses.
std::vector<int64_t> compressions(const KvOptions& options, int64_t prompt, int64_t generate, int64_t* longest) {
  LatentSchedule schedule(options);
  std::vector<int64_t> at;
  int64_t length = prompt;
  *longest = 0;
  if (schedule.prompt_read(length)) {
    length = options.budget;
    at.push_back(0);
  }
  for (int64_t token = 1; token <= generate; ++token) {
    ++length;
    if (schedule.token_appended(length)) {
      length = options.budget;
      at.push_back(token);
    }
    if (!at.empty() || prompt < options.budget) *longest = std::max(*longest, length);
  }
  return at;
}

TEST(Schedule, WaitsForTheGapAndRepeats) {
  const KvOptions options{.rule = KvRule::kLatent, .budget = 100, .gap = 16, .repeat = 50};
  int64_t longest = 0;
  EXPECT_EQ(compressions(options, 500, 130, &longest), (std::vector<int64_t>{16, 66, 116}));
  EXPECT_EQ(compressions(options, 10, 130, &longest), (std::vector<int64_t>{116}));
}

TEST(Schedule, HoldsALongGenerationInsideBudgetAndRepeat) {
  for (const int64_t prompt : {1, 90, 99, 100, 101, 5000}) {
    SCOPED_TRACE(prompt);
    const KvOptions options{.rule = KvRule::kLatent, .budget = 100, .gap = 16, .repeat = 50};
    int64_t longest = 0;
    compressions(options, prompt, 20000, &longest);
    EXPECT_LE(longest, 150);
  }
}

TEST(Schedule, CompressesAtOnceWithoutAGap) {
  int64_t longest = 0;
  const KvOptions options{.rule = KvRule::kLatent, .budget = 100, .gap = -1, .repeat = 0};
  EXPECT_EQ(compressions(options, 500, 1000, &longest), (std::vector<int64_t>{0}));
  EXPECT_TRUE(compressions({.rule = KvRule::kKeepAll}, 5000, 500, &longest).empty());
}

TEST(Schedule, WaitsAgainAfterAnotherTurn) {
  LatentSchedule schedule({.rule = KvRule::kLatent, .budget = 100, .gap = 2, .repeat = 50});
  EXPECT_FALSE(schedule.prompt_read(500));
  EXPECT_FALSE(schedule.token_appended(501));
  EXPECT_TRUE(schedule.token_appended(502));
  EXPECT_FALSE(schedule.prompt_read(300));
  EXPECT_FALSE(schedule.token_appended(301));
  EXPECT_TRUE(schedule.token_appended(302));
}

}  // namespace
}  // namespace ei::policy
