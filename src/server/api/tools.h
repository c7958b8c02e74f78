// Tools that a chat may call: what a request says of them, how the model's template writes calls, and the grammar that
// holds an answer to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/api/call_style.h"
#include "server/api/fields.h"
#include "server/api/json.h"
#include "text/tokenizer.h"

namespace ei::server {

struct Tools {
  Json list = Json::array();  // OpenAI's {"type": "function", "function": {...}}
  CallStyle style = CallStyle::kNone;
  bool required = false;  // a call must be made
  bool parallel = true;   // several may be

  bool any() const { return style != CallStyle::kNone; }
};

// `tools`, `tool_choice`, `parallel_tool_calls`; `style` is the template's. Errors are left in `fields`.
Tools read_tools(Fields& fields, CallStyle style);

// What an answer must follow, and from which token on.
struct CallGrammar {
  std::string grammar{};
  text::Token from = text::kNoToken;
};
// Nothing where calls are free to come: a model that may answer in words is held to the grammar only where one token
// begins a call.
Result<CallGrammar> call_grammar(const Tools& tools, const text::Tokenizer& tokenizer);

// What a template that knows no tools is told in their place.
std::string tools_in_words(const Tools& tools);
// Calls that were made and what came of them as such a template can show them: texts of the assistant and the user.
void put_calls_in_words(std::vector<text::Message>& messages);

struct ToolCall {
  std::string name{};
  std::string arguments{};  // JSON
};
// The calls in a whole JSON value of that style; nothing when it is none.
std::optional<std::vector<ToolCall>> parse_calls(CallStyle style, const std::string& text);

}  // namespace ei::server
