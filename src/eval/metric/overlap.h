// How much of an answer's words a prediction has: token F1 and ROUGE, each as the benchmarks' own scripts compute it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ei::eval {

// SQuAD's: lower case, no ASCII punctuation, then no articles (a, an, the as whole words), split at white space.
std::vector<std::u32string> answer_words(std::string_view text);
// Chinese, one character a word: lower case, no punctuation, no white space.
std::vector<std::u32string> answer_characters(std::string_view text);

// Harmonic mean of precision and recall over bags of words; 0 when nothing is common.
double bag_f1(const std::vector<std::u32string>& expected, const std::vector<std::u32string>& predicted);
double token_f1(std::string_view expected, std::string_view prediction);
double token_f1_chinese(std::string_view expected, std::string_view prediction);

// ROUGE as LongBench takes it, from the package `rouge`: case and punctuation stay, sentences end at full stops, and
// sets of words (or n-grams) are compared, not bags. 0 for an empty text.
double rouge_n(int n, std::string_view expected, std::string_view prediction);
// Words of the longest common subsequences of all pairs of sentences, their union against the words of each side.
double rouge_l(std::string_view expected, std::string_view prediction);
// ROUGE-Lsum as InfiniteBench takes it, from the package `rouge_score`: lower case, letters a to z and digits alone
// make words, every line is a sentence, and a word that is repeated counts as often as both sides have it. 0 for an
// empty text.
double rouge_l_sum(std::string_view expected, std::string_view prediction);
// Chinese, one character a word where LongBench asks a segmenter.
double rouge_l_chinese(std::string_view expected, std::string_view prediction);

}  // namespace ei::eval
