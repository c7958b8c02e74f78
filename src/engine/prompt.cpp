#include "engine/prompt.h"

#include "text/named_templates.h"

namespace ei {

namespace {
bool shows_something(const std::string& source) {
  return source.find("{{") != std::string::npos || source.find("{%") != std::string::npos;
}
}  // namespace

bool has_template(const std::string& asked, const text::Tokenizer& tokenizer) {
  return !asked.empty() || !tokenizer.chat_template().empty();
}

Result<text::ChatTemplate> choose_template(const std::string& asked, const text::Tokenizer& tokenizer) {
  if (const auto named = text::named_template(asked)) return text::ChatTemplate::parse(*named, tokenizer);
  if (!asked.empty() && !shows_something(asked)) {
    return make_error(ErrorKind::kUsage,
                      "--chat-template: '%s' is neither a name (%s) nor a template that shows messages with {{ }}; "
                      "the model's own is taken without it",
                      asked.c_str(), text::template_names().c_str());
  }
  if (!asked.empty()) return text::ChatTemplate::parse(asked, tokenizer);
  const std::string own = tokenizer.chat_template();
  if (own.empty()) {
    return Error{ErrorKind::kUsage, "this model has no chat template: give --chat-template, or use run --raw"};
  }
  return text::ChatTemplate::parse(own, tokenizer, tokenizer.path());
}

Result<std::vector<int32_t>> prompt_tokens(const PromptText& prompt, const text::Tokenizer& tokenizer) {
  if (prompt.raw || !has_template(prompt.chat_template, tokenizer)) {
    if (!prompt.system.empty()) {
      return Error{ErrorKind::kUsage, "a system prompt needs a chat template, and this model has none"};
    }
    return tokenizer.tokenize(prompt.user, {.add_bos_eos = true, .parse_special = prompt.parse_special});
  }
  if (prompt.parse_special) {
    return Error{ErrorKind::kUsage,
                 "--parse-special wants --raw: in a chat template what a message says never becomes a control token"};
  }
  EI_ASSIGN_OR_RETURN(const text::ChatTemplate chat, choose_template(prompt.chat_template, tokenizer));
  std::vector<text::Message> messages;
  if (!prompt.system.empty()) messages.push_back({.role = "system", .content = prompt.system});
  messages.push_back({.role = "user", .content = prompt.user});
  return chat.apply(messages, tokenizer, /*add_generation_prompt=*/true);
}

}  // namespace ei
