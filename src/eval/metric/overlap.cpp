#include "eval/metric/overlap.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "eval/metric/characters.h"

namespace ei::eval {
namespace {

using Word = std::u32string;
using Words = std::vector<Word>;
constexpr double kTiny = 1e-8;  // keeps 0 / 0 away, as in the package

bool is_article(std::u32string_view word) { return word == U"a" || word == U"an" || word == U"the"; }

// Articles between word boundaries become spaces.
std::u32string without_articles(std::u32string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_word_character(text[end])) ++end;
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::u32string_view word = text.substr(at, end - at);
    out += is_article(word) ? std::u32string_view(U" ") : word;
    at = end;
  }
  return out;
}

using Sentence = Words;

// Cut at full stops, white space normalised. A sentence of white space alone is one empty word, as in the package.
std::vector<Sentence> sentences_of(std::string_view text) {
  std::vector<Sentence> sentences;
  const auto add = [&](std::u32string_view piece) {
    if (piece.empty()) return;
    Sentence words = split_characters(piece);
    if (words.empty()) words.emplace_back();
    sentences.push_back(std::move(words));
  };
  const std::u32string all = characters(text);
  std::u32string_view rest = all;
  for (size_t stop = rest.find(U'.'); stop != std::u32string_view::npos; stop = rest.find(U'.')) {
    add(rest.substr(0, stop));
    rest.remove_prefix(stop + 1);
  }
  add(rest);
  return sentences;
}

double f_measure_of(size_t common, size_t expected, size_t predicted) {
  const double precision = predicted == 0 ? 0 : static_cast<double>(common) / static_cast<double>(predicted);
  const double recall = expected == 0 ? 0 : static_cast<double>(common) / static_cast<double>(expected);
  return 2.0 * (precision * recall / (precision + recall + kTiny));
}

// Which of two equally long ways back from the end of a common subsequence a package takes.
enum class Ties : uint8_t { kShortenSecond, kShortenFirst };

// Where the words of one longest common subsequence of x and y stand in x, from the last to the first; among equals the
// one that the package reconstructs.
std::vector<size_t> common_subsequence(const Sentence& x, const Sentence& y, Ties ties) {
  const size_t columns = y.size() + 1;
  std::vector<int> table((x.size() + 1) * columns, 0);
  for (size_t i = 1; i <= x.size(); ++i) {
    for (size_t j = 1; j <= y.size(); ++j) {
      table[i * columns + j] = x[i - 1] == y[j - 1]
                                   ? table[(i - 1) * columns + j - 1] + 1
                                   : std::max(table[(i - 1) * columns + j], table[i * columns + j - 1]);
    }
  }
  std::vector<size_t> found;
  for (size_t i = x.size(), j = y.size(); i > 0 && j > 0;) {
    const int without_x = table[(i - 1) * columns + j];
    const int without_y = table[i * columns + j - 1];
    if (x[i - 1] == y[j - 1]) {
      found.push_back(--i);
      --j;
    } else if (without_x > without_y || (without_x == without_y && ties == Ties::kShortenFirst)) {
      --i;
    } else {
      --j;
    }
  }
  return found;
}

// Lines that are not empty, as words of the letters a to z and digits.
std::vector<Sentence> plain_lines(std::string_view text) {
  std::vector<Sentence> lines;
  Sentence words;
  Word word;
  bool any = false;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  const auto end_line = [&] {
    end_word();
    if (any) lines.push_back(std::move(words));
    words.clear();
    any = false;
  };
  for (const char32_t c : lower_characters(text)) {
    if (c == U'\n') {
      end_line();
      continue;
    }
    any = true;
    if ((c >= U'a' && c <= U'z') || (c >= U'0' && c <= U'9')) {
      word += c;
    } else {
      end_word();
    }
  }
  end_line();
  return lines;
}

std::map<Word, int> word_counts(const std::vector<Sentence>& sentences) {
  std::map<Word, int> counts;
  for (const Sentence& sentence : sentences)
    for (const Word& word : sentence) ++counts[word];
  return counts;
}

size_t word_count(const std::vector<Sentence>& sentences) {
  size_t count = 0;
  for (const Sentence& sentence : sentences) count += sentence.size();
  return count;
}

std::set<Word> word_set(const std::vector<Sentence>& sentences) {
  std::set<Word> words;
  for (const Sentence& sentence : sentences) words.insert(sentence.begin(), sentence.end());
  return words;
}

std::set<Words> grams(int n, const std::vector<Sentence>& sentences) {
  Words all;
  for (const Sentence& sentence : sentences) all.insert(all.end(), sentence.begin(), sentence.end());
  std::set<Words> out;
  for (auto from = all.begin(); all.end() - from >= n; ++from) out.emplace(from, from + n);
  return out;
}

std::string spaced(std::string_view text) {
  std::u32string out;
  for (const char32_t c : characters(text)) {
    out += c;
    out += U' ';
  }
  return to_utf8(out);
}

}  // namespace

std::vector<std::u32string> answer_words(std::string_view text) {
  std::u32string plain;
  for (const char32_t c : lower_characters(text))
    if (!is_ascii_punctuation(c)) plain += c;
  return split_characters(without_articles(plain));
}

std::vector<std::u32string> answer_characters(std::string_view text) {
  Words words;
  for (const char32_t c : lower_characters(text))
    if (!is_chinese_punctuation(c) && !is_space(c)) words.emplace_back(1, c);
  return words;
}

double bag_f1(const Words& expected, const Words& predicted) {
  std::map<Word, int> left;
  for (const Word& word : expected) ++left[word];
  size_t common = 0;
  for (const Word& word : predicted) common += left[word]-- > 0 ? 1 : 0;
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / static_cast<double>(predicted.size());
  const double recall = static_cast<double>(common) / static_cast<double>(expected.size());
  return 2 * precision * recall / (precision + recall);
}

double token_f1(std::string_view expected, std::string_view prediction) {
  return bag_f1(answer_words(expected), answer_words(prediction));
}

double token_f1_chinese(std::string_view expected, std::string_view prediction) {
  return bag_f1(answer_characters(expected), answer_characters(prediction));
}

double rouge_n(int n, std::string_view expected, std::string_view prediction) {
  const std::set<Words> gold = grams(n, sentences_of(expected));
  const std::set<Words> ours = grams(n, sentences_of(prediction));
  const auto common = std::count_if(ours.begin(), ours.end(), [&](const Words& gram) { return gold.count(gram) > 0; });
  return f_measure_of(static_cast<size_t>(common), gold.size(), ours.size());
}

double rouge_l(std::string_view expected, std::string_view prediction) {
  const std::vector<Sentence> gold = sentences_of(expected);
  const std::vector<Sentence> ours = sentences_of(prediction);
  if (gold.empty() || ours.empty()) return 0;
  std::set<Word> common;
  for (const Sentence& reference : gold)
    for (const Sentence& sentence : ours)
      for (const size_t at : common_subsequence(reference, sentence, Ties::kShortenSecond))
        common.insert(reference[at]);
  return f_measure_of(common.size(), word_set(gold).size(), word_set(ours).size());
}

double rouge_l_sum(std::string_view expected, std::string_view prediction) {
  const std::vector<Sentence> gold = plain_lines(expected);
  const std::vector<Sentence> ours = plain_lines(prediction);
  std::map<Word, int> left_of_gold = word_counts(gold);
  std::map<Word, int> left_of_ours = word_counts(ours);
  size_t common = 0;
  for (const Sentence& reference : gold) {
    std::set<size_t> places;
    for (const Sentence& sentence : ours)
      for (const size_t at : common_subsequence(reference, sentence, Ties::kShortenFirst)) places.insert(at);
    for (const size_t at : places) {
      int& of_gold = left_of_gold[reference[at]];
      int& of_ours = left_of_ours[reference[at]];
      if (of_gold <= 0 || of_ours <= 0) continue;
      --of_gold;
      --of_ours;
      ++common;
    }
  }
  if (common == 0) return 0;
  const double recall = static_cast<double>(common) / static_cast<double>(word_count(gold));
  const double precision = static_cast<double>(common) / static_cast<double>(word_count(ours));
  return 2 * precision * recall / (precision + recall);
}

double rouge_l_chinese(std::string_view expected, std::string_view prediction) {
  return rouge_l(spaced(expected), spaced(prediction));
}

}  // namespace ei::eval
