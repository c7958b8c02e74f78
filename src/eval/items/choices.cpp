#include "eval/items/choices.h"

#include <algorithm>

namespace ei::eval {
namespace {

using Tokens = std::vector<text::Token>;

// The token that is the letter and nothing else. Tokens of single bytes come first in a vocabulary that has them beside
// its letters, and are not what it reads letters as.
Result<text::Token> spelled_letter(const std::string& letter, const text::Tokenizer& tokenizer) {
  for (text::Token token = tokenizer.vocab_size() - 1; token >= 0; --token)
    if (tokenizer.piece(token, false) == letter) return token;
  return make_error(ErrorKind::kModel, "no token of the vocabulary spells '%s': its likelihood cannot be compared",
                    one_line(letter).c_str());
}

}  // namespace

Result<std::vector<text::Token>> choice_tokens(const Item& item, const text::Tokenizer& tokenizer) {
  EI_ASSIGN_OR_RETURN(const Tokens lead, tokenizer.tokenize(item.lead, {}));
  Tokens all;
  for (const std::string& letter : item.choices) {
    EI_ASSIGN_OR_RETURN(const Tokens both, tokenizer.tokenize(item.lead + letter, {}));
    const bool apart =
        !lead.empty() && both.size() == lead.size() + 1 && std::equal(lead.begin(), lead.end(), both.begin());
    if (apart) {
      all.push_back(both.back());
      continue;
    }
    // As a text the letter joins with the end of the lead, but the prompt holds the lead by itself.
    EI_ASSIGN_OR_RETURN(const text::Token token, spelled_letter(letter, tokenizer));
    all.push_back(token);
  }
  return all;
}

}  // namespace ei::eval
