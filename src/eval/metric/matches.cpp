#include "eval/metric/matches.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "eval/metric/characters.h"
#include "eval/strip.h"

namespace ei::eval {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::vector<std::string> numbers_in(std::string_view text) {
  std::vector<std::string> numbers;
  std::string number;
  for (const char c : text) {
    if (is_digit(c)) {
      number += c;
    } else if (!number.empty()) {
      numbers.push_back(std::move(number));
      number.clear();
    }
  }
  if (!number.empty()) numbers.push_back(std::move(number));
  return numbers;
}

// "7" of "007".
std::string without_zeros(std::string digits) {
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return digits;
}

// What Python's int() makes of a word, written out; empty where it makes nothing of it.
std::string integer_of(std::string_view word) {
  const bool negative = word.starts_with('-');
  if (negative || word.starts_with('+')) word.remove_prefix(1);
  std::string digits;
  for (size_t i = 0; i < word.size(); ++i) {
    const bool joins = word[i] == '_' && i > 0 && i + 1 < word.size() && word[i - 1] != '_';  // 1_000
    if (joins) continue;
    if (!is_digit(word[i])) return "";
    digits += word[i];
  }
  if (digits.empty()) return "";
  digits = without_zeros(std::move(digits));
  return negative && digits != "0" ? "-" + digits : digits;
}

// "12.5" or "12": digits, and a point with digits behind it.
std::string first_decimal(std::string_view text) {
  const size_t begin = text.find_first_of("0123456789");
  if (begin == std::string_view::npos) return "";
  size_t end = begin;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) {
    ++end;
    while (end < text.size() && is_digit(text[end])) ++end;
  }
  return std::string(text.substr(begin, end - begin));
}

// Length of the longest common subsequence.
size_t common_length(std::u32string_view a, std::u32string_view b) {
  std::vector<size_t> row(b.size() + 1, 0);
  for (const char32_t c : a) {
    size_t diagonal = 0;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = c == b[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return row.back();
}

std::string_view first_code_line(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  while (true) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find_first_of("`#") == std::string_view::npos && line.find("//") == std::string_view::npos) return line;
    if (end == text.size()) return {};
    text.remove_prefix(end + 1);
  }
}

// Words between white space and any of `marks`.
std::vector<std::u32string> words_between(std::string_view text, std::u32string_view marks) {
  std::u32string all = characters(text);
  for (char32_t& c : all)
    if (marks.find(c) != std::u32string_view::npos) c = U' ';
  return split_characters(all);
}

}  // namespace

double found_share(const std::vector<std::string>& gold, std::string_view prediction) {
  if (gold.empty()) return 0;
  const std::u32string text = lower_characters(prediction);
  const auto found = std::count_if(gold.begin(), gold.end(), [&](const std::string& one) {
    return text.find(lower_characters(one)) != std::u32string::npos;
  });
  return static_cast<double>(found) / static_cast<double>(gold.size());
}

double found_any(const std::vector<std::string>& gold, std::string_view prediction) {
  return found_share(gold, prediction) > 0 ? 1 : 0;
}

double exact_match(std::string_view expected, std::string_view prediction) {
  return strip(expected) == strip(prediction) ? 1 : 0;
}

double edit_similarity(std::string_view expected, std::string_view prediction) {
  const std::u32string a = characters(expected);
  const std::u32string b = characters(prediction);
  const size_t longer = std::max(a.size(), b.size());
  if (longer == 0) return 1;
  std::vector<size_t> row(b.size() + 1);  // distance of a[..i] and b[..j]
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j < row.size(); ++j) {
      const size_t above = row[j];
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + change});
      diagonal = above;
    }
  }
  return 1.0 - static_cast<double>(row.back()) / static_cast<double>(longer);
}

double class_score(std::string_view expected, const std::vector<std::string>& classes, std::string_view prediction) {
  std::vector<std::string> named;
  for (const std::string& name : classes)
    if (prediction.find(name) != std::string_view::npos) named.push_back(name);
  // The script removes from the list it walks, so the entry behind a removed one is passed over; scores follow it.
  for (size_t i = 0; i < named.size(); ++i) {
    if (named[i] != expected && expected.find(named[i]) != std::string_view::npos)
      named.erase(std::find(named.begin(), named.end(), named[i]));
  }
  const bool right = std::find(named.begin(), named.end(), expected) != named.end();
  return right ? 1.0 / static_cast<double>(named.size()) : 0;
}

double number_share(std::string_view expected, std::string_view prediction) {
  const std::vector<std::string> wanted = numbers_in(expected);
  const std::vector<std::string> numbers = numbers_in(prediction);
  if (wanted.empty() || numbers.empty()) return 0;
  const auto right = std::count(numbers.begin(), numbers.end(), wanted.front());
  return static_cast<double>(right) / static_cast<double>(numbers.size());
}

double code_similarity(std::string_view expected, std::string_view prediction) {
  const std::u32string a = characters(first_code_line(prediction));
  const std::u32string b = characters(expected);
  if (a.empty() || b.empty()) return 0;
  const double ratio = 2.0 * static_cast<double>(common_length(a, b)) / static_cast<double>(a.size() + b.size());
  return std::nearbyint(100 * ratio) / 100;
}

char chosen_letter(std::string_view prediction) {
  std::string text;
  for (const char c : prediction)
    if (c != '*') text += c;
  constexpr std::string_view kBefore = "The correct answer is ";
  for (const std::string_view bracket : {std::string_view("("), std::string_view("")}) {
    for (size_t at = text.find(kBefore); at != std::string::npos; at = text.find(kBefore, at + 1)) {
      const std::string_view rest = std::string_view(text).substr(at + kBefore.size());
      if (!rest.starts_with(bracket)) continue;
      const std::string_view letter = rest.substr(bracket.size());
      const bool closed = bracket.empty() || letter.substr(0, 2).ends_with(")");
      if (!letter.empty() && letter[0] >= 'A' && letter[0] <= 'D' && closed) return letter[0];
    }
  }
  return 0;
}

double first_number_match(std::string_view expected, std::string_view prediction) {
  const std::vector<std::string> numbers = numbers_in(prediction);
  return !numbers.empty() && numbers.front() == expected ? 1 : 0;
}

double math_match(std::string_view expected, std::string_view prediction) {
  const std::string number = first_decimal(prediction);
  if (number.empty()) return 0;
  return std::strtod(number.c_str(), nullptr) == std::strtod(std::string(expected).c_str(), nullptr) ? 1 : 0;
}

double word_match(std::string_view expected, std::string_view prediction) {
  const std::vector<std::u32string> words = words_between(prediction, U"\n:\"'.,?!{}");
  return std::find(words.begin(), words.end(), characters(expected)) != words.end() ? 1 : 0;
}

double last_integer_match(std::string_view expected, std::string_view prediction) {
  const std::vector<std::u32string> words = words_between(prediction, U"\n.`'\":");
  if (words.empty()) return 0;
  const std::string last = integer_of(to_utf8(words.back()));
  return !last.empty() && last == integer_of(expected) ? 1 : 0;
}

double leading_numbers_share(const std::vector<std::string>& expected, std::string_view prediction) {
  if (expected.empty()) return 0;
  const std::vector<std::string> numbers = numbers_in(prediction);
  size_t right = 0;
  while (right < std::min(expected.size(), numbers.size()) &&
         integer_of(expected[right]) == without_zeros(numbers[right]))
    ++right;
  return static_cast<double>(right) / static_cast<double>(expected.size());
}

}  // namespace ei::eval
