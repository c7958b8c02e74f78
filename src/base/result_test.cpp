#include "base/result.h"

#include <gtest/gtest.h>

namespace ei {
namespace {

TEST(OneLine, KeepsTextAndDropsWhatATerminalObeys) {
  EXPECT_EQ(one_line("plain, naïve, 模型"), "plain, naïve, 模型");
  EXPECT_EQ(one_line("two\nlines\r\n\ttab"), "two?lines???tab");
  EXPECT_EQ(one_line("\033]0;title\007\x7f"), "?]0;title??");
  EXPECT_EQ(one_line("\xc2\x9b"
                     "2J"),
            "?2J");
  EXPECT_EQ(one_line("\xc2\xa0\xc2"), "\xc2\xa0\xc2");
  EXPECT_EQ(one_line(std::string_view("a\0b", 3)), "a?b");
}

}  // namespace
}  // namespace ei
