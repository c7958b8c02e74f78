#include "cli/progress.h"

#include <gtest/gtest.h>

namespace ei::cli {
namespace {

TEST(Bar, IsNeverAsWideAsTheTerminal) {
  for (int64_t columns = 1; columns < 200; ++columns) {
    for (const int64_t done : {0, 1, 500, 999, 1000}) {
      const std::string bar = bar_text("reading the prompt", done, 1000, 61.5, columns);
      EXPECT_LT(static_cast<int64_t>(bar.size()), columns) << bar;
    }
  }
}

TEST(Bar, LeavesOutTheRateBeforeItself) {
  EXPECT_EQ(bar_text("x", 1, 2, 1, 200), "x [################................]  50%, 1 tokens/s, 1.00 s left");
  EXPECT_EQ(bar_text("x", 1, 2, 1, 30), "x [##########..........]  50%");
  EXPECT_EQ(bar_text("x", 1, 2, 1, 12), "x  50%");
}

}  // namespace
}  // namespace ei::cli
