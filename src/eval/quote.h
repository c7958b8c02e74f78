// The `quote` task: the cue and the rest of one sentence of the haystack itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "eval/facts.h"
#include "eval/layout.h"
#include "eval/tasks.h"

namespace ei::eval {

inline constexpr int64_t kQuoteForms = 4;
inline constexpr int64_t kQuoteTokens = 110;  // about what its question and answer take

struct Quote {
  Facts facts;  // one line: the sentence
  size_t sentence = 0;
};

// Asks in one of kQuoteForms for what follows `cue`.
std::string quote_question(size_t form, std::string_view cue);

// The suitable sentence nearest to `depth` among the first `count`: long enough, without quotation marks, its first
// words (the cue) found only once in `context`.
Result<Quote> find_quote(const SentenceTape& tape, size_t count, std::string_view context, double depth,
                         const CountTokens& count_tokens);

}  // namespace ei::eval
