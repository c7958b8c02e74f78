#include "base/units.h"

#include <gtest/gtest.h>

namespace ei {
namespace {

TEST(Units, BytesGetTheLargestUnitThatLeavesAWholeOne) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(128.0 * 1024 * 1024), "128.0 MiB");
  EXPECT_EQ(format_bytes(1e18), "888.2 PiB");
}

TEST(Units, SecondsBecomeMinutesFromOneMinuteOn) {
  EXPECT_EQ(format_seconds(0.424), "0.42 s");
  EXPECT_EQ(format_seconds(59.9), "59.90 s");
  EXPECT_EQ(format_seconds(60), "1 min 00 s");
  EXPECT_EQ(format_seconds(185.9), "3 min 05 s");
}

TEST(Units, OneOfAThingIsOne) {
  EXPECT_EQ(counted(1, "token"), "1 token");
  EXPECT_EQ(counted(0, "token"), "0 tokens");
  EXPECT_EQ(counted(2, "token"), "2 tokens");
}

}  // namespace
}  // namespace ei
