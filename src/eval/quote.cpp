#include "eval/quote.h"

#include <algorithm>
#include <optional>
#include <string>

#include "eval/facts_draw.h"
#include "eval/strip.h"

namespace ei::eval {
namespace {

constexpr std::string_view kForms[kQuoteForms] = {
    "Quote the sentence that follows: \"{q}\"", "Continue this passage: \"{q}\"",
    "How does the text go on after \"{q}\"?", "Quote the rest of the sentence that begins: \"{q}\""};
constexpr int kMinCueWords = 8;
constexpr int kMaxCueWords = 12;
constexpr int64_t kMinRestTokens = 16;
constexpr int64_t kMaxRestTokens = 60;

// Where the first `words` words of the sentence end; nothing if it is shorter.
size_t end_of_words(std::string_view sentence, int words) {
  size_t at = 0;
  for (int i = 0; i < words && at != std::string_view::npos; ++i) at = sentence.find(' ', at + (i > 0 ? 1 : 0));
  return at;
}

bool occurs_once(std::string_view text, std::string_view phrase) {
  const size_t first = text.find(phrase);
  return first != std::string_view::npos && text.find(phrase, first + 1) == std::string_view::npos;
}

std::optional<Facts> quote_of(std::string_view sentence, size_t i, std::string_view context,
                              const CountTokens& count_tokens) {
  if (sentence.find_first_of("\"\n") != std::string_view::npos) return std::nullopt;
  // Cue length and form vary from sentence to sentence, not with chance: the same sentence makes the same question.
  const int words = kMinCueWords + static_cast<int>(i % (kMaxCueWords - kMinCueWords + 1));
  const size_t end = end_of_words(sentence, words);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view cue = sentence.substr(0, end);
  const std::string_view rest = sentence.substr(end);  // with its leading space
  const int64_t rest_tokens = count_tokens(rest);
  if (rest_tokens < kMinRestTokens || rest_tokens > kMaxRestTokens || !occurs_once(context, cue)) return std::nullopt;
  Facts facts;
  facts.lines = {std::string(sentence)};
  facts.gold = {0};
  facts.question = quote_question(i % kQuoteForms, cue);
  facts.answer = rest;
  facts.gold_strings = {std::string(strip(rest))};
  return facts;
}

}  // namespace

std::string quote_question(size_t form, std::string_view cue) { return fill_form(kForms[form], {{"{q}", cue}}); }

Result<Quote> find_quote(const SentenceTape& tape, size_t count, std::string_view context, double depth,
                         const CountTokens& count_tokens) {
  const size_t start = std::min(sentence_at(tape, count, depth), count - 1);
  for (size_t step = 0; step < count; ++step) {
    for (const size_t i : {start + step, start - step}) {  // below zero wraps and fails the bound
      if (i >= count) continue;
      auto facts = quote_of(strip(tape.sentence(i)), i, context, count_tokens);
      if (facts) return Quote{.facts = *std::move(facts), .sentence = i};
    }
  }
  return make_error(ErrorKind::kUsage, "no sentence of the text can be quoted (of %zu); raise the target", count);
}

}  // namespace ei::eval
