// Characters of a text, as the benchmarks' own scripts see them: code points, lower case, punctuation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ei::eval {

// Bytes that are no UTF-8 become U+FFFD.
std::u32string characters(std::string_view text);
std::string to_utf8(std::u32string_view text);

// Latin, Greek and Cyrillic letters; others stay.
char32_t lower_character(char32_t c);
std::u32string lower_characters(std::string_view text);

bool is_space(char32_t c);
bool is_ascii_punctuation(char32_t c);  // Python's string.punctuation
// That, full-width forms and the marks of Chinese texts.
bool is_chinese_punctuation(char32_t c);
// What a regular expression's \w takes: letters, digits and the underscore of any script, no marks.
bool is_word_character(char32_t c);

// Split at white space.
std::vector<std::u32string> split_characters(std::u32string_view text);

}  // namespace ei::eval
