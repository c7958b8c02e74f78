// The text of a task: haystack sentences with facts between them, measured in tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/haystack.h"

namespace ei::eval {

// Sentences drawn from a haystack, with the tokens each one adds.
class SentenceTape {
 public:
  SentenceTape(Haystack haystack, std::function<int64_t(std::string_view)> count_tokens);

  // The most sentences whose tokens sum to at most `tokens`; draws more when needed.
  size_t fitting(int64_t tokens);
  bool ended() const { return ended_; }                                  // the haystack gave no more
  const std::string& sentence(size_t i) const { return sentences_[i]; }  // with leading white space
  int64_t tokens_before(size_t i) const { return before_[i]; }

 private:
  Haystack haystack_;
  std::function<int64_t(std::string_view)> count_tokens_;
  std::vector<std::string> sentences_;
  std::vector<int64_t> before_{0};  // [sentences + 1]
  bool ended_ = false;
};

// The first sentence of the first `count` before which at least `depth` of their tokens stand.
size_t sentence_at(const SentenceTape& tape, size_t count, double depth);

// The first `count` sentences with lines[i] before sentence places[i] (ascending).
std::string lay_out(const SentenceTape& tape, size_t count, const std::vector<std::string>& lines,
                    const std::vector<size_t>& places);

}  // namespace ei::eval
