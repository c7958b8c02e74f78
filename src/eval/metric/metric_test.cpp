#include "eval/metric/metric.h"

#include <gtest/gtest.h>

#include <set>

namespace ei::eval {
namespace {

double score(std::string_view name, const Gold& gold, std::string_view prediction) {
  const auto metric = find_metric(name);
  EXPECT_TRUE(metric.ok()) << name;
  return metric.ok() ? score_of(**metric, gold, prediction) : -1;
}

TEST(Metrics, GiveARightAnswerOneAndAnEmptyOneNothing) {
  std::set<std::string_view> names;
  for (const Metric& metric : metrics()) {
    SCOPED_TRACE(metric.name);
    EXPECT_TRUE(names.insert(metric.name).second);
    std::string answer = "1234 green hills";
    std::string prediction = answer;
    if (metric.name == "letter") answer = "C", prediction = "The correct answer is (C)";
    for (const char* name : {"first_number", "word", "last_integer", "leading_numbers"})
      if (metric.name == name) answer = prediction = "1234";
    const Gold gold{.answers = {answer}, .classes = {answer}};
    EXPECT_NEAR(score_of(metric, gold, prediction), 1, 1e-6);
    EXPECT_EQ(score_of(metric, gold, ""), 0);
    EXPECT_EQ(score_of(metric, gold, "?"), 0);
  }
  EXPECT_FALSE(find_metric("bleu").ok());
}

TEST(Metrics, TakeTheBestOfTheAlternatives) {
  EXPECT_EQ(score("f1", {.answers = {"blue", "red fox"}, .classes = {}}, "the red fox"), 1);
  EXPECT_EQ(score("exact", {.answers = {"blue", "red"}, .classes = {}}, "red"), 1);
}

TEST(Metrics, OfShortAnswersLookAtTheFirstLineOnly) {
  const Gold gold{.answers = {"red"}, .classes = {"red", "blue"}};
  EXPECT_EQ(score("f1_line", gold, "\n\nred\nblue"), 1);
  EXPECT_EQ(score("f1", gold, "red\nblue"), 2.0 / 3.0);
  EXPECT_EQ(score("class", gold, "red\nblue"), 1);
  EXPECT_NEAR(score("rouge_l_line", gold, "red\nblue"), 1, 1e-6);
}

TEST(Metrics, OfChineseClassesAndCodeTakeTheLineThatCounts) {
  const Gold news{.answers = {"体育"}, .classes = {"体育", "财政、金融"}};
  EXPECT_EQ(score("class", news, "\n\n体育\n\n新闻内容：财政、金融"), 1);
  EXPECT_EQ(score("class", news, "财政、金融\n体育"), 0) << "the second line is the next example's";
  EXPECT_EQ(score("code", {.answers = {"return 名字"}, .classes = {}}, "\n# 返回\nreturn 名字\n"), 1);
}

TEST(Metrics, CountPartsOrAlternatives) {
  const Gold gold{.answers = {"12", "34"}, .classes = {}};
  EXPECT_EQ(score("found", gold, "12"), 0.5);
  EXPECT_EQ(score("found_any", gold, "12"), 1);
  EXPECT_EQ(score("leading_numbers", gold, "12, 35"), 0.5);
  EXPECT_EQ(score("last_integer", gold, "34"), 1) << "alternatives";
}

}  // namespace
}  // namespace ei::eval
