#include "engine/stop_filter.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace ei {
namespace {

std::string feed(StopFilter& filter, const std::vector<std::string>& pieces) {
  std::string shown;
  for (const std::string& piece : pieces) shown += filter.push(piece);
  if (!filter.stopped()) shown += filter.finish();
  return shown;
}

TEST(StopFilter, EndsInFrontOfAStopStringSplitOverPieces) {
  StopFilter filter({"END"});
  EXPECT_EQ(feed(filter, {"the E", "N", "D of it"}), "the ");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopFilter, ShowsHeldTextWhenItWasNoStopString) {
  StopFilter filter({"END"});
  EXPECT_EQ(feed(filter, {"the EN", "TRY"}), "the ENTRY");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, EmptyStopStringsAreIgnored) {
  StopFilter filter({""});
  EXPECT_EQ(feed(filter, {"a", "b"}), "ab");
}

TEST(StopFilter, AnyCutGivesWhatTheWholeTextGives) {
  Random random(5);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "ab\n"[random.below(3)];
    StopFilter whole({"aab", "\n\nb"});
    const std::string expected = feed(whole, {text});
    StopFilter cut({"aab", "\n\nb"});
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const auto length = static_cast<size_t>(random.between(1, 4));
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    ASSERT_EQ(feed(cut, pieces), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace ei
