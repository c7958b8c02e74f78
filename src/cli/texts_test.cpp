#include "cli/texts.h"

#include <gtest/gtest.h>

namespace ei::cli {
namespace {

TEST(Texts, EscapesBecomeWhatTheySpellAndOtherBackslashesStay) {
  EXPECT_EQ(unescape("a\\nb\\tc"), "a\nb\tc");
  EXPECT_EQ(unescape("\\\"\\'\\\\"), "\"'\\");
  EXPECT_EQ(unescape("\\x41\\x0a"), "A\n");
  EXPECT_EQ(unescape("\\q \\x4 \\xzz \\"), "\\q \\x4 \\xzz \\");
  EXPECT_EQ(unescape("\\\\n"), "\\n");
}

TEST(Texts, AreEscapedOnlyWhenAsked) {
  Settings settings;
  settings.prompt = "a\\nb";
  settings.stop = {"\\n"};
  EXPECT_EQ(*read_texts(settings)->prompt, "a\\nb");
  settings.escape = true;
  EXPECT_EQ(*read_texts(settings)->prompt, "a\nb");
  EXPECT_EQ(read_texts(settings)->stop, std::vector<std::string>{"\n"});
}

TEST(Texts, AMissingFileIsNamed) {
  Settings settings;
  settings.grammar_file = "no/such.gbnf";
  const Result<Settings> read = read_texts(settings);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("cannot open grammar file no/such.gbnf"), std::string::npos);
}

}  // namespace
}  // namespace ei::cli
