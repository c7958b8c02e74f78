#include "eval/metric/metric.h"

#include <algorithm>

#include "eval/metric/matches.h"
#include "eval/metric/overlap.h"

namespace ei::eval {
namespace {

// The best over the alternatives.
template <double (*Score)(std::string_view, std::string_view)>
double best(const Gold& gold, std::string_view prediction) {
  double most = 0;
  for (const std::string& answer : gold.answers) most = std::max(most, Score(answer, prediction));
  return most;
}

double best_rouge_1(const Gold& gold, std::string_view prediction) {
  double most = 0;
  for (const std::string& answer : gold.answers) most = std::max(most, rouge_n(1, answer, prediction));
  return most;
}

double best_rouge_2(const Gold& gold, std::string_view prediction) {
  double most = 0;
  for (const std::string& answer : gold.answers) most = std::max(most, rouge_n(2, answer, prediction));
  return most;
}

double best_class(const Gold& gold, std::string_view prediction) {
  double most = 0;
  for (const std::string& answer : gold.answers) most = std::max(most, class_score(answer, gold.classes, prediction));
  return most;
}

double all_found(const Gold& gold, std::string_view prediction) { return found_share(gold.answers, prediction); }
double any_found(const Gold& gold, std::string_view prediction) { return found_any(gold.answers, prediction); }

double leading_numbers(const Gold& gold, std::string_view prediction) {
  return leading_numbers_share(gold.answers, prediction);
}

double right_letter(const Gold& gold, std::string_view prediction) {
  const char letter = chosen_letter(prediction);
  return letter != 0 && !gold.answers.empty() && gold.answers[0] == std::string(1, letter) ? 1 : 0;
}

constexpr bool kWhole = false;
constexpr bool kFirstLine = true;
constexpr Metric kMetrics[] = {
    {"found", "share of the gold strings in the prediction, ignoring case (RULER)", kWhole, all_found},
    {"found_any", "any of the gold strings in it, ignoring case (RULER qa, InfiniteBench dialogue)", kWhole, any_found},
    {"exact", "equal, white space at both ends aside", kWhole, best<exact_match>},
    {"f1", "F1 over bags of normalised words (LongBench, InfiniteBench)", kWhole, best<token_f1>},
    {"f1_line", "the same of the first line (LongBench triviaqa)", kFirstLine, best<token_f1>},
    {"f1_zh", "F1 over bags of characters (Chinese)", kWhole, best<token_f1_chinese>},
    {"rouge_1", "ROUGE-1", kWhole, best_rouge_1},
    {"rouge_2", "ROUGE-2", kWhole, best_rouge_2},
    {"rouge_l", "ROUGE-L (LongBench)", kWhole, best<rouge_l>},
    {"rouge_l_sum", "ROUGE-Lsum (InfiniteBench longbook_sum_eng)", kWhole, best<rouge_l_sum>},
    {"rouge_l_line", "the same of the first line (LongBench samsum)", kFirstLine, best<rouge_l>},
    {"rouge_l_zh", "ROUGE-L over characters (Chinese)", kWhole, best<rouge_l_chinese>},
    {"class", "the class that is named, first line (LongBench trec, lsht)", kFirstLine, best_class},
    {"number", "share of the numbers that are right (LongBench retrieval and count)", kWhole, best<number_share>},
    {"code", "similarity of the first line of code (LongBench lcc, repobench-p)", kWhole, best<code_similarity>},
    {"edit", "1 - edit distance / longer length", kWhole, best<edit_similarity>},
    {"letter", "the letter of the choice (LongBench v2)", kWhole, right_letter},
    {"first_number", "the first number (InfiniteBench passkey, number_string)", kWhole, best<first_number_match>},
    {"math", "the first number by value (InfiniteBench math_find)", kWhole, best<math_match>},
    {"word", "one of the words (InfiniteBench kv_retrieval)", kWhole, best<word_match>},
    {"last_integer", "the last word as a whole number (InfiniteBench code_run)", kWhole, best<last_integer_match>},
    {"leading_numbers", "share of the numbers it begins with (InfiniteBench math_calc)", kWhole, leading_numbers},
};

}  // namespace

std::span<const Metric> metrics() { return kMetrics; }

Result<const Metric*> find_metric(std::string_view name) {
  std::string names;
  for (const Metric& metric : kMetrics) {
    if (metric.name == name) return &metric;
    names += (names.empty() ? "" : ", ") + std::string(metric.name);
  }
  return make_error(ErrorKind::kUsage, "unknown metric '%s'; choose one of %s", std::string(name).c_str(),
                    names.c_str());
}

double score_of(const Metric& metric, const Gold& gold, std::string_view prediction) {
  if (metric.first_line) {
    prediction.remove_prefix(std::min(prediction.find_first_not_of('\n'), prediction.size()));
    prediction = prediction.substr(0, prediction.find('\n'));
  }
  return metric.score(gold, prediction);
}

}  // namespace ei::eval
