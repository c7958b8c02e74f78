#include "policy/kv/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ei::policy {
namespace {

// Generated-token counts at which a session with this prompt compresses.
std::vector<int64_t> compressions(const KvOptions& options, int64_t prompt, int64_t generate, int64_t* longest) {
  KvSchedule schedule(options);
  std::vector<int64_t> at;
  int64_t length = prompt;
  *longest = 0;
  if (schedule.prompt_read(length > options.budget)) {
    length = options.budget;
    at.push_back(0);
  }
  for (int64_t token = 1; token <= generate; ++token) {
    ++length;
    if (schedule.token_appended(length > options.budget)) {
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
}

TEST(Schedule, WaitsAgainAfterAnotherTurn) {
  KvSchedule schedule({.rule = KvRule::kLatent, .gap = 2, .repeat = 50});
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE(schedule.prompt_read(/*over=*/true));
    EXPECT_FALSE(schedule.token_appended(/*over=*/true));
    EXPECT_TRUE(schedule.token_appended(/*over=*/true));
  }
}

}  // namespace
}  // namespace ei::policy
