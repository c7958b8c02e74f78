#include "eval/text_scores.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace ei::eval {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

double f_measure(size_t common, size_t expected, size_t predicted) {
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(predicted);
  const double recall = static_cast<double>(common) / static_cast<double>(expected);
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

std::string_view strip(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string> normalised_words(std::string_view text) {
  std::string plain;
  for (char c : lower(text))
    if (std::ispunct(static_cast<unsigned char>(c)) == 0) plain += c;
  std::vector<std::string> words = split_words(plain);
  std::erase_if(words, [](const std::string& w) { return w == "a" || w == "an" || w == "the"; });
  return words;
}

double contains_share(const std::vector<std::string>& gold, std::string_view prediction) {
  if (gold.empty()) return 0;
  const std::string text = lower(prediction);
  const auto found = std::count_if(gold.begin(), gold.end(),
                                   [&](const std::string& g) { return text.find(lower(g)) != std::string::npos; });
  return static_cast<double>(found) / static_cast<double>(gold.size());
}

double f1_words(std::string_view expected, std::string_view prediction) {
  const auto gold = normalised_words(expected);
  const auto words = normalised_words(prediction);
  std::map<std::string, int> left;
  for (const std::string& w : gold) ++left[w];
  size_t common = 0;
  for (const std::string& w : words) common += left[w]-- > 0 ? 1 : 0;
  return f_measure(common, gold.size(), words.size());
}

double rouge_l(std::string_view expected, std::string_view prediction) {
  const auto gold = split_words(lower(expected));
  const auto words = split_words(lower(prediction));
  std::vector<size_t> row(words.size() + 1, 0);  // longest common subsequence of gold[..i] and words[..j]
  for (const std::string& g : gold) {
    size_t diagonal = 0;
    for (size_t j = 1; j <= words.size(); ++j) {
      const size_t above = row[j];
      row[j] = g == words[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return f_measure(row.back(), gold.size(), words.size());
}

double edit_similarity(std::string_view expected, std::string_view prediction) {
  const size_t longer = std::max(expected.size(), prediction.size());
  if (longer == 0) return 1;
  std::vector<size_t> row(prediction.size() + 1);  // distance of expected[..i] and prediction[..j]
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= expected.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j < row.size(); ++j) {
      const size_t above = row[j];
      const size_t change = expected[i - 1] == prediction[j - 1] ? 0 : 1;
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + change});
      diagonal = above;
    }
  }
  return 1.0 - static_cast<double>(row.back()) / static_cast<double>(longer);
}

}  // namespace ei::eval
