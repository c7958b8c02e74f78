// Checks a GBNF grammar before libllama's parser sees it: that parser prints its errors, recurses once per group and
// per leftmost rule, and tries every way through ambiguous rules. What passes here parses there in bounded time.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace ei::text {

// kUsage when the grammar is malformed, has no `root` rule, names an undefined rule, is left-recursive (also through
// parts that may be empty), or passes a limit: 1 MiB, 128 nested groups, 20000 rules and groups, 2000 repetitions of an
// item, a million elements after repetition, 10000 alternatives open at one point.
Status check_grammar(std::string_view grammar, const Tokenizer& tokenizer);

}  // namespace ei::text
