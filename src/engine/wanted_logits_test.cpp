// The bookkeeping of wanted logits, without a model.
#include "engine/wanted_logits.h"

#include <gtest/gtest.h>

namespace ei {
namespace {

TEST(WantedLogits, RowsAreCountedFromTheFirstThatIsWanted) {
  const WantedRows some = wanted_rows(10, [](int64_t row) { return row == 4 || row == 5 || row == 9; });
  EXPECT_EQ(some.tail, 6);
  EXPECT_EQ(some.rows, (std::vector<int64_t>{0, 1, 5}));
  const WantedRows none = wanted_rows(10, [](int64_t) { return false; });
  EXPECT_EQ(none.tail, 0) << "only the cache is filled";
  EXPECT_TRUE(none.rows.empty());
  const WantedRows all = wanted_rows(3, [](int64_t) { return true; });
  EXPECT_EQ(all.tail, 3);
  EXPECT_EQ(all.rows, (std::vector<int64_t>{0, 1, 2}));
}

TEST(WantedLogits, ARunEndsAtTheFirstGapOrAtTheMost) {
  const std::vector<int64_t> rows = {0, 1, 2, 4, 5};
  EXPECT_EQ(leading_run(rows, 100), 3);
  EXPECT_EQ(leading_run(rows, 2), 2);
  EXPECT_EQ(leading_run({}, 100), 0);
}

TEST(WantedLogits, PiecesAreBoundedInMemoryAndAtLeastOneRow) {
  EXPECT_EQ(logits_together(4096) % 32, 0);
  EXPECT_LE(logits_together(4096) * 4096 * 4, int64_t{64} << 20);
  EXPECT_GE(logits_together(262208), 32);
  EXPECT_EQ(logits_together(int64_t{1} << 30), 1);
}

}  // namespace
}  // namespace ei
