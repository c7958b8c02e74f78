#include "report/compact.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace ei::report {
namespace {

using Bytes = std::vector<uint8_t>;

std::string base64_of(std::string_view text) { return base64(Bytes(text.begin(), text.end())); }

TEST(Base64, PadsAsTheStandardSays) {
  EXPECT_EQ(base64_of(""), "");
  EXPECT_EQ(base64_of("f"), "Zg==");
  EXPECT_EQ(base64_of("fo"), "Zm8=");
  EXPECT_EQ(base64_of("foo"), "Zm9v");
  EXPECT_EQ(base64_of("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64(Bytes{0xFB, 0xFF}), "+/8=");
}

Bytes expand(const Bytes& runs) {
  Bytes levels;
  for (const uint8_t run : runs) levels.insert(levels.end(), (run & 15) + 1u, static_cast<uint8_t>(run >> 4));
  return levels;
}

TEST(LevelRuns, ExpandToWhatTheyWereMadeFrom) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Bytes levels;
    while (levels.size() < 500)
      levels.insert(levels.end(), 1 + random.below(40), static_cast<uint8_t>(random.below(16)));
    EXPECT_EQ(expand(level_runs(levels)), levels);
  }
  EXPECT_EQ(level_runs(Bytes(16, 15)), Bytes{0xFF});
  EXPECT_EQ(level_runs(Bytes(17, 0)), (Bytes{0x0F, 0x00}));
  EXPECT_TRUE(level_runs({}).empty());
}

TEST(PositionRuns, AreOnePairForAnUntouchedHead) {
  EXPECT_EQ(position_runs({.length = 5}), (Bytes{0, 5}));
  EXPECT_EQ(position_runs({.length = 300}), (Bytes{0, 0x80 | (300 & 127), 300 >> 7}));
  EXPECT_TRUE(position_runs({}).empty());
}

TEST(PositionRuns, FollowListedPositionsAndTheTailBehindThem) {
  const std::vector<int32_t> listed = {0, 1, 2, 200, 201, 999};
  KvHeadView head{.length = 9, .listed_positions = listed.data(), .listed = 6, .tail_position = 1000};
  // 3 from 0, 2 from 200 (197 skipped), and 999 runs on into the tail: 4 from 999 (797 skipped).
  EXPECT_EQ(position_runs(head), (Bytes{0, 3, 0x80 | (197 & 127), 197 >> 7, 2, 0x80 | (797 & 127), 797 >> 7, 4}));
}

}  // namespace
}  // namespace ei::report
