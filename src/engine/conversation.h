// Conversation: messages, a chat template and a session. Every turn renders all messages and reads only what the
// session does not hold yet.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/prefix.h"
#include "engine/session.h"
#include "text/chat_template.h"

namespace ei {

class Conversation {
 public:
  // `session` must outlive it. `system`: the system message; empty: none.
  Conversation(Session& session, text::ChatTemplate chat, std::string system = {});

  struct Turn {
    std::span<const int32_t> prompt;  // all messages, rendered
    PrefixReuse reuse;                // the session stands behind its first reuse.kept tokens
  };
  // Reads the rest of the prompt, generates, and returns the text.
  using AnswerFn = std::function<Result<std::string>(const Turn& turn)>;
  // One message and its answer. A turn without an answer is as if it had not been said; what was read of it stays in
  // the session, where the next turn finds it. kUsage when the conversation is longer than the context.
  Status say(const std::string& message, const AnswerFn& answer);
  // Forgets what was said, but for the system message.
  void clear();
  // Takes the last message and its answer back; returns the message. Nullopt where nothing was said.
  std::optional<std::string> take_back();
  // Goes on with these messages, which were said elsewhere.
  void restore(std::vector<text::Message> messages) { messages_ = std::move(messages); }

  std::span<const text::Message> messages() const { return messages_; }

 private:
  Result<std::string> reply(const AnswerFn& answer);

  Session& session_;
  text::ChatTemplate chat_;
  std::string system_;
  std::vector<text::Message> messages_;
};

}  // namespace ei
