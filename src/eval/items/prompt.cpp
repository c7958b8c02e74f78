#include "eval/items/prompt.h"

#include <algorithm>

namespace ei::eval {
namespace {

using Tokens = std::vector<text::Token>;

int64_t length_of(const Tokens& tokens) { return static_cast<int64_t>(tokens.size()); }

void add_tokens(Tokens& to, const Tokens& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

int64_t ItemPrompt::tokens() const {
  int64_t all = length_of(context);
  for (const Tokens& turn : turns) all += length_of(turn);
  return all;
}

Result<ChatFrame> plain_frame(const text::Tokenizer& tokenizer) { return make_chat_frame(tokenizer, std::nullopt); }

Result<ItemPrompt> make_item_prompt(const Item& item, const text::Tokenizer& tokenizer, const ChatFrame& frame,
                                    int64_t room) {
  ItemPrompt prompt;
  Tokens lead;
  if (!item.lead.empty()) {
    EI_ASSIGN_OR_RETURN(lead, tokenizer.tokenize(item.lead, {}));
  }
  for (const ItemTurn& turn : item.turns) {
    Tokens tokens = prompt.turns.empty() ? Tokens{} : frame.next;
    if (item.has_question) {
      EI_ASSIGN_OR_RETURN(const Tokens question,
                          tokenizer.tokenize((prompt.turns.empty() ? "\n\n" : "") + turn.question, {}));
      add_tokens(tokens, question);
    }
    if (!item.plain) add_tokens(tokens, frame.answer);
    add_tokens(tokens, lead);
    prompt.turns.push_back(std::move(tokens));
  }
  EI_ASSIGN_OR_RETURN(const Tokens text, tokenizer.tokenize(item.context, {}));
  Tokens head = frame.head;
  if (item.plain && length_of(head) > 1) head.resize(head[0] == tokenizer.bos() ? 1 : 0);
  const int64_t answers = static_cast<int64_t>(item.turns.size()) * item.max_new;
  const int64_t left = room - prompt.tokens() - length_of(head) - answers;
  prompt.context = head;
  if (length_of(text) <= left) {
    add_tokens(prompt.context, text);
    return prompt;
  }
  if (left < 2) {
    return make_error(ErrorKind::kUsage,
                      "%s: the questions and answers alone take %lld of %lld tokens; raise the length",
                      item.id().c_str(), static_cast<long long>(room - left), static_cast<long long>(room));
  }
  prompt.truncated = true;
  prompt.context.insert(prompt.context.end(), text.begin(), text.begin() + left / 2);
  prompt.context.insert(prompt.context.end(), text.end() - (left - left / 2), text.end());
  return prompt;
}

}  // namespace ei::eval
