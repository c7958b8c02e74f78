// What a user of `chat` can say to the program instead of the model.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/conversation.h"

namespace ei::cli {

enum class ChatVerb { kMessage, kHelp, kRead, kRegen, kSave, kLoad, kStats, kClear, kExit };

struct ChatCommandEntry {
  ChatVerb verb;
  std::string_view name;  // "/read"
  std::string_view value;
  std::string_view help;
};
std::span<const ChatCommandEntry> chat_commands();

struct ChatCommand {
  ChatVerb verb = ChatVerb::kMessage;
  std::string argument{};
};
// A line that begins with a slash and a word of letters is a command; kUsage for one that is not known, and where a
// file is missing or nothing may follow. Everything else is a message: "/etc/hosts is what?".
Result<ChatCommand> parse_chat_command(const std::string& line);
bool is_chat_command(const std::string& line);  // a known one, in its right form
std::string chat_help();

// The messages as JSON in a file: [{"role": ..., "content": ...}, ...].
Status save_conversation(const Conversation& conversation, const std::string& path);
Status load_conversation(Conversation& conversation, const std::string& path);

}  // namespace ei::cli
