#include "engine/conversation.h"

#include <utility>

#include "engine/engine.h"
#include "engine/fits.h"

namespace ei {

Conversation::Conversation(Session& session, text::ChatTemplate chat, std::string system)
    : session_(session), chat_(std::move(chat)), system_(std::move(system)) {
  clear();
}

void Conversation::clear() {
  messages_.clear();
  if (!system_.empty()) messages_.push_back({.role = "system", .content = system_});
}

std::optional<std::string> Conversation::take_back() {
  while (!messages_.empty() && messages_.back().role == "assistant") messages_.pop_back();
  if (messages_.empty() || messages_.back().role != "user") return std::nullopt;
  std::string message = std::move(messages_.back().content);
  messages_.pop_back();
  return message;
}

Status Conversation::say(const std::string& message, const AnswerFn& answer) {
  messages_.push_back({.role = "user", .content = message});
  Result<std::string> text = reply(answer);
  if (!text.ok()) {
    messages_.pop_back();
    return text.error();
  }
  messages_.push_back({.role = "assistant", .content = std::move(*text)});
  return {};
}

Result<std::string> Conversation::reply(const AnswerFn& answer) {
  EI_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                      chat_.apply(messages_, session_.engine().tokenizer(), /*add_generation_prompt=*/true));
  if (prompt.empty()) return Error{ErrorKind::kUsage, "the chat template renders nothing"};
  // Before anything of the cache is given up for it.
  EI_RETURN_IF_ERROR(check_prompt_fits(session_, static_cast<int64_t>(prompt.size())));
  EI_ASSIGN_OR_RETURN(const PrefixReuse reuse, reuse_prefix(session_, prompt));
  return answer({.prompt = prompt, .reuse = reuse});
}

}  // namespace ei
