// Scores of answers that are right or wrong, or right in part: found strings, classes, numbers, code, letters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ei::eval {

// RULER: share of the gold strings that the prediction contains, ignoring case; 0 without any.
double found_share(const std::vector<std::string>& gold, std::string_view prediction);
// RULER's qa: 1 when it contains any of them.
double found_any(const std::vector<std::string>& gold, std::string_view prediction);
// 1 when they are equal, white space at both ends aside.
double exact_match(std::string_view expected, std::string_view prediction);
// 1 - Levenshtein distance / longer length, in characters; 1 for two empty texts.
double edit_similarity(std::string_view expected, std::string_view prediction);

// LongBench.
// Classes named in the prediction, without those that are part of the right one's name: 1 / how many when it is there.
double class_score(std::string_view expected, const std::vector<std::string>& classes, std::string_view prediction);
// Share of the numbers in the prediction that are the number in the expected text; 0 without any.
double number_share(std::string_view expected, std::string_view prediction);
// Of the first line without a comment or a fence: 2 * common characters in order / characters of both, in whole
// percents.
double code_similarity(std::string_view expected, std::string_view prediction);
// LongBench v2: the letter of "The correct answer is (B)", brackets and asterisks aside; 0 when there is none.
char chosen_letter(std::string_view prediction);

// InfiniteBench.
double first_number_match(std::string_view expected, std::string_view prediction);  // passkey, number_string
double math_match(std::string_view expected, std::string_view prediction);          // math_find: by value
double word_match(std::string_view expected, std::string_view prediction);          // kv_retrieval: one of the words
// code_run: the last word is an integer, as Python's int() reads it (in ASCII digits), and the expected one.
double last_integer_match(std::string_view expected, std::string_view prediction);
// math_calc: how many of the expected numbers those of the prediction begin with, as a share. A number is its digits:
// signs are none of it, so that an expected negative one, and all behind it, is never met.
double leading_numbers_share(const std::vector<std::string>& expected, std::string_view prediction);

}  // namespace ei::eval
