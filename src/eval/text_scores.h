// How near a predicted text is to the expected one: the usual scores of long-context benchmarks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ei::eval {

std::string_view strip(std::string_view text);  // without white space at both ends

// Lower case, without punctuation and the articles a, an, the; split at white space.
std::vector<std::string> normalised_words(std::string_view text);

// Share of the gold strings found in the prediction, ignoring case; 0 when there are none.
double contains_share(const std::vector<std::string>& gold, std::string_view prediction);
// Harmonic mean of precision and recall over the bags of normalised words.
double f1_words(std::string_view expected, std::string_view prediction);
// F-measure of the longest common subsequence of words (lower case).
double rouge_l(std::string_view expected, std::string_view prediction);
// 1 - Levenshtein distance / longer length, in bytes; 1 for two empty texts.
double edit_similarity(std::string_view expected, std::string_view prediction);

}  // namespace ei::eval
