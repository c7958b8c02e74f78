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
  EXPECT_EQ(bar_text("x", {1, 2, 1, 1}, 200), "x [################................]  50%, 1 tokens/s, about 1 s left");
  EXPECT_NE(bar_text("x", {1, 2, 1, 33}, 200).find("about 35 s left"), std::string::npos);
  EXPECT_NE(bar_text("x", {1, 2, 1, 170}, 200).find("about 3 min left"), std::string::npos);
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

// Of every prompt that full attention takes long for: from a tenth of it on the time left is known within a quarter.
TEST(PromptClock, IsWithinAQuarterFromATenthOn) {
  for (const double share : {0.0, 0.1, 0.5, 2.0, 10.0}) {  // of the quadratic part, at 8192 tokens
    for (const int64_t total : {16384, 32768, 131072}) {
      const auto time_of = [&](double tokens) { return 2e-4 * tokens * (1 + share * tokens / 8192) + 0.02; };
      PromptClock clock;
      for (int64_t done = 512; done < total; done += 512) {
        const double left = clock.left_s(done, total, time_of(static_cast<double>(done)));
        if (done < total / 10) continue;
        const double truly = time_of(static_cast<double>(total)) - time_of(static_cast<double>(done));
        EXPECT_NEAR(left, truly, 0.25 * truly) << share << " " << total << " " << done;
      }
    }
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
