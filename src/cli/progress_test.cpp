#include "cli/progress.h"

#include <gtest/gtest.h>

namespace ei::cli {
namespace {

TEST(Bar, IsNeverAsWideAsTheTerminal) {
  for (int64_t columns = 1; columns < 200; ++columns) {
    for (const int64_t done : {0, 1, 500, 999, 1000}) {
      const std::string bar = bar_text("reading the prompt", {done, 1000, 61.5, 3000}, columns);
      EXPECT_LT(static_cast<int64_t>(bar.size()), columns) << bar;
    }
  }
}

TEST(Bar, LeavesOutTheRateBeforeItself) {
  EXPECT_EQ(bar_text("x", {1, 2, 1, 1}, 200), "x [################................]  50%, 1 tokens/s, 1.00 s left");
  EXPECT_EQ(bar_text("x", {1, 2, 1, 1}, 30), "x [##########..........]  50%");
  EXPECT_EQ(bar_text("x", {1, 2, 1, 1}, 12), "x  50%");
}

TEST(PromptClock, KnowsThatAttentionGrows) {
  const auto time_of = [](double tokens) { return 1e-4 * tokens + 2e-8 * tokens * tokens; };
  PromptClock clock;
  constexpr int64_t kTotal = 32768;
  for (int64_t done = 1024; done < kTotal; done += 1024) {
    const double left = clock.left_s(done, kTotal, time_of(static_cast<double>(done)));
    if (done < 4096) continue;
    EXPECT_NEAR(left, time_of(kTotal) - time_of(static_cast<double>(done)), 0.05) << done;
  }
}

TEST(PromptClock, DividesALinearTimeEvenlyAndBeginsAnew) {
  PromptClock clock;
  for (int round = 0; round < 2; ++round)
    for (int64_t done = 100; done <= 1000; done += 100)
      EXPECT_NEAR(clock.left_s(done, 1000, 0.01 * static_cast<double>(done)), 0.01 * static_cast<double>(1000 - done),
                  1e-9);
}

TEST(RoundsClock, GoesByTheRoundsThatAreOver) {
  RoundsClock clock;
  EXPECT_NEAR(clock.left_s(50, 400, 100, 1.0), 7.0, 1e-9);  // nothing better is known
  EXPECT_NEAR(clock.left_s(100, 400, 100, 4.0), 12.0, 1e-9);
  EXPECT_NEAR(clock.left_s(150, 400, 100, 5.0), 11.0, 1e-9);  // a second round that begins quickly ends as late
  EXPECT_NEAR(clock.left_s(200, 400, 100, 10.0), 10.0, 1e-9);
  EXPECT_NEAR(clock.left_s(400, 400, 100, 20.0), 0.0, 1e-9);
}

}  // namespace
}  // namespace ei::cli
