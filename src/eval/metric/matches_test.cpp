// Every expected value was computed by hand from the definitions of the benchmarks' scripts.
#include "eval/metric/matches.h"

#include <gtest/gtest.h>

namespace ei::eval {
namespace {

TEST(Found, CountsGoldStringsIgnoringCase) {
  EXPECT_EQ(found_share({"Alpha", "beta", "gamma", "12"}, "ALPHA and Beta, 112"), 0.75);
  EXPECT_EQ(found_share({"Élan"}, "un élan"), 1);
  EXPECT_EQ(found_share({}, "anything"), 0);
  EXPECT_EQ(found_any({"no", "yes"}, "Yes."), 1);
  EXPECT_EQ(found_any({"no", "yes"}, "perhaps"), 0);
}

TEST(Exact, ForgivesWhiteSpaceAtTheEndsAlone) {
  EXPECT_EQ(exact_match(" red fox", "red fox\n"), 1);
  EXPECT_EQ(exact_match("red fox", "red  fox"), 0);
}

TEST(EditSimilarity, IsOneMinusRelativeLevenshteinDistance) {
  EXPECT_NEAR(edit_similarity("kitten", "sitting"), 1 - 3.0 / 7.0, 1e-12);
  EXPECT_NEAR(edit_similarity("森林", "森公"), 0.5, 1e-12) << "characters, not bytes";
  EXPECT_EQ(edit_similarity("same", "same"), 1);
  EXPECT_EQ(edit_similarity("", ""), 1);
  EXPECT_EQ(edit_similarity("abc", ""), 0);
}

TEST(Classes, AreRightWhenNamedAlone) {
  const std::vector<std::string> classes = {"Food", "Date", "Animal", "Other animal"};
  EXPECT_EQ(class_score("Food", classes, "Type: Food"), 1);
  EXPECT_EQ(class_score("Food", classes, "Food or Date"), 0.5);
  EXPECT_EQ(class_score("Food", classes, "Date"), 0);
  EXPECT_EQ(class_score("Food", classes, "food"), 0) << "case counts";
}

TEST(Classes, OfWhichOneNamesAnotherCountOnce) {
  EXPECT_EQ(class_score("Other Date", {"Date", "Food", "Other Date"}, "Other Date"), 1);
  // Removing while walking passes over the next entry: "Other" goes, "Date" stays, as in the script.
  EXPECT_EQ(class_score("Other Date", {"Other", "Date", "Other Date"}, "Other Date"), 0.5);
}

TEST(Classes, InChineseAreFoundInWhateverStandsAroundThem) {
  const std::vector<std::string> classes = {"农业、农村", "体育", "经济", "财政、金融", "教育"};
  EXPECT_EQ(class_score("体育", classes, "类别：体育。"), 1) << "no spaces between words";
  EXPECT_EQ(class_score("农业、农村", classes, "农业、农村"), 1);
  EXPECT_EQ(class_score("农业、农村", classes, "农业"), 0) << "a part of its name is not its name";
  EXPECT_EQ(class_score("教育", classes, "体育和教育"), 0.5);
  EXPECT_EQ(class_score("教育", classes, "体育、经济，还有教育"), 1.0 / 3.0);
  EXPECT_EQ(class_score("体育", classes, "育体"), 0) << "the same characters in another order";
  // One name within another: that of the right one is forgiven, the longer wrong one is not.
  EXPECT_EQ(class_score("农业、农村", {"农业", "农业、农村"}, "农业、农村"), 1);
  EXPECT_EQ(class_score("农业", {"农业", "农业、农村"}, "农业、农村"), 0.5);
}

TEST(Numbers, AreAShareOfThoseSaid) {
  EXPECT_EQ(number_share("Paragraph 12", "Paragraph 12"), 1);
  EXPECT_EQ(number_share("Paragraph 1", "Paragraph 12"), 0);
  EXPECT_EQ(number_share("段落5", "段落5，不是段落6"), 0.5);
  EXPECT_EQ(number_share("46", "46 46 4 5"), 0.5);
  EXPECT_EQ(number_share("46", "none"), 0);
}

TEST(Code, ComparesTheFirstLineThatIsNoComment) {
  EXPECT_EQ(code_similarity("return x;", "\n// comment\nreturn x;\nmore"), 1);
  // "abcd" and "abce": 2 * 3 / 8.
  EXPECT_EQ(code_similarity("abcd", "abce"), 0.75);
  // 2 * 1 / 3 = 0.667 in whole percents.
  EXPECT_EQ(code_similarity("a", "ab"), 0.67);
  EXPECT_EQ(code_similarity("a", "# a"), 0);
  EXPECT_EQ(code_similarity("a", ""), 0);
}

TEST(Code, IsComparedByCharacters) {
  // print("你好") and print("您好"), 11 characters each, 10 of them in common: 2 * 10 / 22 = 0.909.
  EXPECT_EQ(code_similarity("print(\"你好\")", "print(\"您好\")"), 0.91) << "by bytes it would be 0.8";
  // 姓名 = 1 and 名 = 1, 6 and 5 characters, 5 in common: 2 * 5 / 11 = 0.909.
  EXPECT_EQ(code_similarity("姓名 = 1", "名 = 1"), 0.91);
  EXPECT_EQ(code_similarity("名 = 1", "// 名字\n# 注释\n```\n名 = 1\n"), 1) << "comments and fences are passed over";
  EXPECT_EQ(code_similarity("名 = 1", "名 = 1  # 注释"), 0) << "as in the script, a comment behind the code too";
  EXPECT_EQ(code_similarity("甲乙", "丙丁"), 0);
}

TEST(Letter, IsReadFromTheSentenceThatWasAskedFor) {
  EXPECT_EQ(chosen_letter("The correct answer is (C) because"), 'C');
  EXPECT_EQ(chosen_letter("**The correct answer is (B)**"), 'B');
  EXPECT_EQ(chosen_letter("The correct answer is D."), 'D');
  EXPECT_EQ(chosen_letter("The correct answer is A. No: The correct answer is (B)"), 'B') << "brackets first";
  EXPECT_EQ(chosen_letter("The correct answer is (E)"), 0);
  EXPECT_EQ(chosen_letter("The correct answer is (A"), 0) << "a bracket that is not closed is none";
  EXPECT_EQ(chosen_letter("B"), 0);
}

TEST(FirstNumber, DecidesPassKeys) {
  EXPECT_EQ(first_number_match("71432", "The pass key is 71432."), 1);
  EXPECT_EQ(first_number_match("71432", "Key 1 is 71432"), 0);
  EXPECT_EQ(first_number_match("71432", "714321"), 0);
  EXPECT_EQ(first_number_match("71432", ""), 0);
}

TEST(MathMatch, ComparesValues) {
  EXPECT_EQ(math_match("7", "The largest is 7.0, not 8"), 1);
  EXPECT_EQ(math_match("7.5", "7.5"), 1);
  EXPECT_EQ(math_match("7", "7.5"), 0);
  EXPECT_EQ(math_match("7", "7. Then 8"), 1) << "a full stop is no decimal point";
  EXPECT_EQ(math_match("7", "seven"), 0);
}

TEST(WordMatch, WantsAWholeWord) {
  EXPECT_EQ(word_match("ab-1", "{\"ab-1\"}."), 1);
  EXPECT_EQ(word_match("ab-1", "ab-12"), 0);
}

TEST(LastInteger, DecidesWhatCodeReturns) {
  EXPECT_EQ(last_integer_match("4", "4"), 1);
  EXPECT_EQ(last_integer_match("-14", "The return value is: -14."), 1) << "a full stop is dropped";
  EXPECT_EQ(last_integer_match("4", "func_2(4) = `4`\n\n"), 1);
  EXPECT_EQ(last_integer_match("4", "value:4"), 1);
  EXPECT_EQ(last_integer_match("4", "4 or 5"), 0) << "the last, and no other";
  EXPECT_EQ(last_integer_match("5", "3.5"), 1) << "a point parts words, so this ends with 5";
  EXPECT_EQ(last_integer_match("4", "4.0"), 0);
  EXPECT_EQ(last_integer_match("4", "x=4"), 0);
  EXPECT_EQ(last_integer_match("4", "4)"), 0);
  EXPECT_EQ(last_integer_match("1000", "1,000"), 0);
  EXPECT_EQ(last_integer_match("14", "−14"), 0) << "a minus of typographers is no sign";
  EXPECT_EQ(last_integer_match("4", ""), 0);
  EXPECT_EQ(last_integer_match("4", " \n.:"), 0);
  EXPECT_EQ(last_integer_match("4", "four"), 0);
}

TEST(LastInteger, IsReadAsPythonReadsOne) {
  EXPECT_EQ(last_integer_match("7", "007"), 1);
  EXPECT_EQ(last_integer_match("7", "+7"), 1);
  EXPECT_EQ(last_integer_match("0", "-0"), 1);
  EXPECT_EQ(last_integer_match("-7", "-07"), 1);
  EXPECT_EQ(last_integer_match("1000", "1_000"), 1);
  for (const char* none : {"1__000", "_1000", "1000_", "--1000", "+-1000", "1000a", "0x3e8"})
    EXPECT_EQ(last_integer_match("1000", none), 0) << none;
  EXPECT_EQ(last_integer_match("-", "-"), 0) << "neither is a number";
  EXPECT_EQ(last_integer_match("100000000000000000000000", "100000000000000000000000"), 1) << "of any size";
}

TEST(LeadingNumbers, CountUntilTheFirstThatIsWrong) {
  const std::vector<std::string> values = {"8", "5", "7", "3"};
  EXPECT_EQ(leading_numbers_share(values, "[8, 5, 7, 3]"), 1);
  EXPECT_EQ(leading_numbers_share(values, "8 5 7 3 9 9"), 1) << "what follows does not count";
  EXPECT_EQ(leading_numbers_share(values, "[8, 5]"), 0.5);
  EXPECT_EQ(leading_numbers_share(values, "[8, 5, 6, 3]"), 0.5) << "nothing behind a wrong one counts";
  EXPECT_EQ(leading_numbers_share(values, "[5, 7, 3]"), 0);
  EXPECT_EQ(leading_numbers_share(values, "8 - 3 = 5, 5 + 2 = 7"), 0.25) << "every number in the text is one of them";
  EXPECT_EQ(leading_numbers_share(values, "85, 7, 3"), 0);
  EXPECT_EQ(leading_numbers_share(values, "08, 05.7"), 0.75) << "by value; a point parts numbers";
  EXPECT_EQ(leading_numbers_share(values, "-8, 5"), 0.5) << "a sign is no part of a number";
  EXPECT_EQ(leading_numbers_share(values, ""), 0);
  EXPECT_EQ(leading_numbers_share(values, "none"), 0);
  EXPECT_EQ(leading_numbers_share({}, "8"), 0);
  EXPECT_EQ(leading_numbers_share({"8", "-2", "1"}, "8, -2, 1"), 1.0 / 3.0) << "the script cannot meet a negative one";
  EXPECT_EQ(leading_numbers_share({"0", "10"}, "000 10"), 1);
}

}  // namespace
}  // namespace ei::eval
