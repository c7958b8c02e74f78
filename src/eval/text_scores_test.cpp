#include "eval/text_scores.h"

#include <gtest/gtest.h>

namespace ei::eval {
namespace {

TEST(Strip, RemovesWhiteSpaceAtBothEnds) {
  EXPECT_EQ(strip(" \n a b\t\r\n"), "a b");
  EXPECT_EQ(strip(" \n"), "");
}

TEST(NormalisedWords, DropsCasePunctuationAndArticles) {
  EXPECT_EQ(normalised_words("The  cat, a DOG; an owl's."), (std::vector<std::string>{"cat", "dog", "owls"}));
}

TEST(ContainsShare, CountsGoldStringsIgnoringCase) {
  EXPECT_EQ(contains_share({"Alpha", "beta", "gamma", "12"}, "ALPHA and Beta, 112"), 0.75);
  EXPECT_EQ(contains_share({}, "anything"), 0);
}

TEST(F1Words, IsTheHarmonicMeanOverBags) {
  // Two of three predicted words are right, two of four expected are found: 2 * 2/3 * 1/2 / (2/3 + 1/2).
  EXPECT_NEAR(f1_words("red green blue white", "the red blue grey"), 4.0 / 7.0, 1e-12);
  EXPECT_EQ(f1_words("red", "red red"), 2.0 / 3.0);
  EXPECT_EQ(f1_words("red", ""), 0);
  EXPECT_EQ(f1_words("", ""), 0);
}

TEST(RougeL, FollowsTheLongestCommonSubsequence) {
  // The longest common subsequence is "the cat the mat": 4 of 6 and 4 of 5 words.
  EXPECT_NEAR(rouge_l("The cat sat on the mat", "the cat lay the mat"), 8.0 / 11.0, 1e-12);
  EXPECT_EQ(rouge_l("a b c", "a b c"), 1);
  EXPECT_EQ(rouge_l("a b", "c d"), 0);
  EXPECT_EQ(rouge_l("", "c d"), 0);
}

TEST(EditSimilarity, IsOneMinusRelativeLevenshteinDistance) {
  EXPECT_NEAR(edit_similarity("kitten", "sitting"), 1 - 3.0 / 7.0, 1e-12);
  EXPECT_EQ(edit_similarity("same", "same"), 1);
  EXPECT_EQ(edit_similarity("", ""), 1);
  EXPECT_EQ(edit_similarity("abc", ""), 0);
}

}  // namespace
}  // namespace ei::eval
