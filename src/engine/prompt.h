// From a question to the tokens of a prompt: which chat template is taken, and what it is given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ei {

// Is there a template: this one (`asked`, empty: none), or the model's?
bool has_template(const std::string& asked, const text::Tokenizer& tokenizer);
// `asked`: Jinja, a name of text/named_templates.h, or empty for the model's own. kUsage when there is none; kModel
// when the model's is at fault.
Result<text::ChatTemplate> choose_template(const std::string& asked, const text::Tokenizer& tokenizer);

struct PromptText {
  std::string user;
  std::string system = {};         // empty: none; needs a template
  std::string chat_template = {};  // as in choose_template
  bool raw = false;                // complete `user` as it is
  bool parse_special = false;      // text that spells a control token becomes one; refused in a template
};
// `user` as a message when there is a template, as it is otherwise or with `raw`.
Result<std::vector<int32_t>> prompt_tokens(const PromptText& prompt, const text::Tokenizer& tokenizer);

}  // namespace ei
