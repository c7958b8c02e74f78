// An item as tokens: what is read before each answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/exam.h"
#include "eval/items/item.h"
#include "text/tokenizer.h"

namespace ei::eval {

struct ItemPrompt {
  std::vector<text::Token> context;             // with what the template puts in front
  std::vector<std::vector<text::Token>> turns;  // what follows: the question and what leads to its answer
  bool truncated = false;                       // the middle of the context was left out

  int64_t tokens() const;  // all of them, without answers
};

// Where a model has no chat template, answers begin with this.
inline constexpr std::string_view kPlainLead = "Answer:";

// The frame of items that never stand in a template, and of models without one.
Result<ChatFrame> plain_frame(const text::Tokenizer& tokenizer);

// At most `room` tokens with the answers: a longer context loses its middle, as in LongBench. `frame` is of the model's
// template, or plain.
Result<ItemPrompt> make_item_prompt(const Item& item, const text::Tokenizer& tokenizer, const ChatFrame& frame,
                                    int64_t room);

}  // namespace ei::eval
