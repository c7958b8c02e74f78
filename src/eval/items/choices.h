// The tokens that multiple choice compares: the letters as they stand behind what the answer is made to begin with.
#pragma once

#include <vector>

#include "base/result.h"
#include "eval/items/item.h"
#include "text/tokenizer.h"

namespace ei::eval {

// One for each of the item's choices. At the beginning of a text some vocabularies put a space in front of a letter,
// which makes it another token; behind "(" there is none. kModel when no token spells a letter.
Result<std::vector<text::Token>> choice_tokens(const Item& item, const text::Tokenizer& tokenizer);

}  // namespace ei::eval
