#include "server/scheduler/histogram.h"

#include <gtest/gtest.h>

namespace ei::server {
namespace {

TEST(Histogram, PutsAValueIntoTheFirstBoundThatIsNotBelowIt) {
  Histogram values{1, 2, 4};
  for (const double value : {0.0, 1.0, 1.5, 2.0, 4.0, 4.5, 100.0}) values.add(value);
  EXPECT_EQ(values.counts(), (std::vector<int64_t>{2, 2, 1, 2}));
  EXPECT_DOUBLE_EQ(values.sum(), 113);
}

}  // namespace
}  // namespace ei::server
