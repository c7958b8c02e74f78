// Every expected value was computed by hand from the definitions of the benchmarks' scripts.
#include "eval/metric/overlap.h"

#include <gtest/gtest.h>

namespace ei::eval {
namespace {

using Words = std::vector<std::u32string>;

TEST(AnswerWords, DropCasePunctuationAndArticles) {
  EXPECT_EQ(answer_words("The  cat, a DOG; an owl's."), (Words{U"cat", U"dog", U"owls"}));
  EXPECT_EQ(answer_words("ÉCOLE Ünter"), (Words{U"école", U"ünter"}));
}

TEST(AnswerWords, DropPunctuationBeforeArticles) {
  EXPECT_EQ(answer_words("a-b the-end"), (Words{U"ab", U"theend"}));
  EXPECT_EQ(answer_words("_the_"), (Words{})) << "the underscore is punctuation, so an article is left";
}

TEST(AnswerWords, FindArticlesBetweenMarksThatStay) {
  EXPECT_EQ(answer_words("“the cat”"), (Words{U"“", U"cat”"})) << "curly quotes are no ASCII punctuation";
}

TEST(AnswerCharacters, AreChineseWithoutPunctuation) {
  EXPECT_EQ(answer_characters("19.01%。 A，森林"), (Words{U"1", U"9", U"0", U"1", U"a", U"森", U"林"}));
}

TEST(TokenF1, IsTheHarmonicMeanOverBags) {
  // Two of three predicted words are right, two of four expected are found: 2 * 2/3 * 1/2 / (2/3 + 1/2).
  EXPECT_NEAR(token_f1("red green blue white", "the red blue grey"), 4.0 / 7.0, 1e-12);
  EXPECT_EQ(token_f1("red", "red red"), 2.0 / 3.0);
  EXPECT_EQ(token_f1("100 metres", "100 metres."), 1);
  EXPECT_EQ(token_f1("red", ""), 0);
  EXPECT_EQ(token_f1("", ""), 0);
  EXPECT_EQ(token_f1("the", "the"), 0) << "nothing is left to compare";
}

TEST(TokenF1, TakesChineseByCharacter) {
  // 森林 of 森林公园: precision 1, recall 1/2.
  EXPECT_NEAR(token_f1_chinese("森林公园", "森林。"), 2.0 / 3.0, 1e-12);
  EXPECT_EQ(token_f1_chinese("19.01%。", "1901"), 1);
  EXPECT_EQ(token_f1_chinese("。", "。"), 0);
}

TEST(Rouge, ComparesSetsOfGrams) {
  // {a, b, c} and {a, b, d}: 2/3 both ways; repeated words count once.
  EXPECT_NEAR(rouge_n(1, "a b c", "a a b d"), 2.0 / 3.0, 1e-6);
  // {a b, b c} and {a b, b d}.
  EXPECT_NEAR(rouge_n(2, "a b c", "a b d"), 0.5, 1e-6);
  EXPECT_EQ(rouge_n(2, "a", "a"), 0) << "one word has no pair";
  EXPECT_EQ(rouge_n(1, "a", ""), 0);
}

TEST(Rouge, LKeepsCaseAndCountsWordsOnce) {
  // Longest common subsequence "cat the mat" of "The cat sat on the mat" and "the cat lay the mat": 3 different words
  // of 6 and of 4: 2 * 3/6 * 3/4 / (3/6 + 3/4).
  EXPECT_NEAR(rouge_l("The cat sat on the mat", "the cat lay the mat"), 0.6, 1e-6);
  EXPECT_NEAR(rouge_l("a b c", "a b c"), 1, 1e-6);
  EXPECT_EQ(rouge_l("a b", "c d"), 0);
  EXPECT_EQ(rouge_l("", "c d"), 0);
  EXPECT_EQ(rouge_l("c d", "..."), 0) << "full stops alone are no sentence";
}

TEST(Rouge, LJoinsWhatSentencesHaveInCommon) {
  // "w1 w2 w3 w4 w5" with "w1 w2 w6 w7 w8" and "w1 w3 w8 w9 w5": {w1 w2} and {w1 w3 w5} make four of five, and four of
  // the eight different words on the other side.
  const double recall = 4.0 / 5.0;
  const double precision = 4.0 / 8.0;
  EXPECT_NEAR(rouge_l("w1 w2 w3 w4 w5", "w1 w2 w6 w7 w8. w1 w3 w8 w9 w5."),
              2 * recall * precision / (recall + precision), 1e-6);
}

TEST(Rouge, LsumCountsRepeatedWordsAndTakesLinesForSentences) {
  // The same subsequences, but 10 words on the other side, repeated ones among them: 2 * 4/5 * 4/10 / (4/5 + 4/10).
  EXPECT_NEAR(rouge_l_sum("w1 w2 w3 w4 w5", "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5"), 8.0 / 15.0, 1e-12);
  // "cat the mat" and the article in front, whatever its case: 4 of 6 and of 5.
  EXPECT_NEAR(rouge_l_sum("The cat sat on the mat", "the cat lay the mat"), 8.0 / 11.0, 1e-12);
  // Lines change places without loss, words of one line do not.
  EXPECT_EQ(rouge_l_sum("one two\nthree four", "three four\none two"), 1);
  EXPECT_EQ(rouge_l_sum("a b c d", "b a d c"), 0.5);
  // "a b" and "a" are both found in "a a b": three of three, and three of four.
  EXPECT_NEAR(rouge_l_sum("a a b", "a b b\na"), 6.0 / 7.0, 1e-12);
  EXPECT_EQ(rouge_l_sum("x y", "..."), 0);
  EXPECT_EQ(rouge_l_sum("", ""), 0);
}

TEST(Rouge, LsumKnowsNoLettersBeyondZ) {
  // "cole", "na", "ve", "a" and "ecole", "naive", "a".
  EXPECT_NEAR(rouge_l_sum("École, naïve-A.", "ecole naive a"), 2.0 / 7.0, 1e-12);
}

TEST(Rouge, LTakesChineseByCharacter) {
  // 绿色校园 and 绿色学校: 绿色校 in order, three of four characters on both sides.
  EXPECT_NEAR(rouge_l_chinese("绿色校园", "绿色学校"), 0.75, 1e-6);
}

}  // namespace
}  // namespace ei::eval
