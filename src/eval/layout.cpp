#include "eval/layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ei::eval {
namespace {

void append(std::string& text, std::string_view piece) {
  const bool has_space = !piece.empty() && (piece[0] == ' ' || piece[0] == '\n');
  if (text.empty() && has_space) piece.remove_prefix(std::min(piece.size(), piece.find_first_not_of(" \n")));
  if (!text.empty() && !has_space) text += ' ';
  text += piece;
}

}  // namespace

SentenceTape::SentenceTape(Haystack haystack, std::function<int64_t(std::string_view)> count_tokens)
    : haystack_(std::move(haystack)), count_tokens_(std::move(count_tokens)) {}

size_t SentenceTape::fitting(int64_t tokens) {
  while (!ended_ && before_.back() <= tokens) {
    std::string next = haystack_();
    ended_ = next.empty();
    if (ended_) break;
    before_.push_back(before_.back() + count_tokens_(next));
    sentences_.push_back(std::move(next));
  }
  const auto over = std::upper_bound(before_.begin(), before_.end(), std::max<int64_t>(tokens, 0));
  return static_cast<size_t>(over - before_.begin()) - 1;
}

size_t sentence_at(const SentenceTape& tape, size_t count, double depth) {
  const double wanted = depth * static_cast<double>(tape.tokens_before(count));
  size_t low = 0;
  size_t high = count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (static_cast<double>(tape.tokens_before(middle)) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::string lay_out(const SentenceTape& tape, size_t count, const std::vector<std::string>& lines,
                    const std::vector<size_t>& places) {
  std::string text;
  size_t line = 0;
  for (size_t i = 0; i <= count; ++i) {
    while (line < lines.size() && places[line] <= i) append(text, lines[line++]);
    if (i < count) append(text, tape.sentence(i));
  }
  return text;
}

}  // namespace ei::eval
