#include "cli/chat_commands.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/input.h"
#include "report/report_file.h"

namespace ei::cli {

namespace {
constexpr std::array<ChatCommandEntry, 9> kChatCommands = {{
    {ChatVerb::kHelp, "/help", "", "this list"},
    {ChatVerb::kRead, "/read", "FILE", "put a text in front of the next message"},
    {ChatVerb::kRegen, "/regen", "", "answer the last message again"},
    {ChatVerb::kSave, "/save", "FILE", "write the conversation to a file"},
    {ChatVerb::kLoad, "/load", "FILE", "go on with a conversation from a file"},
    {ChatVerb::kStats, "/stats", "", "what the last answer cost"},
    {ChatVerb::kClear, "/clear", "", "forget the conversation"},
    {ChatVerb::kExit, "/exit", "", "leave (so does Ctrl-D)"},
    {ChatVerb::kExit, "/quit", "", "the same"},
}};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// As a shell would read it: quotes around it go, ~ is the user's home.
std::string file_named(std::string argument) {
  const char quote = argument.empty() ? '\0' : argument.front();
  if (argument.size() > 2 && (quote == '"' || quote == '\'') && argument.back() == quote)
    argument = argument.substr(1, argument.size() - 2);
  const char* home = std::getenv("HOME");
  if (home != nullptr && (argument == "~" || argument.starts_with("~/"))) argument.replace(0, 1, home);
  return argument;
}

using MessagesJson = nlohmann::ordered_json;

Error bad_file(const std::string& path, const char* why) {
  return make_error(ErrorKind::kUsage, "%s holds no conversation: %s", path.c_str(), why);
}
}  // namespace

std::span<const ChatCommandEntry> chat_commands() { return kChatCommands; }

Result<ChatCommand> parse_chat_command(const std::string& line) {
  const std::string word = line.substr(0, line.find_first_of(" \t\n"));
  const bool command = word.size() > 1 && word[0] == '/' && std::all_of(word.begin() + 1, word.end(), is_letter);
  if (!command) return ChatCommand{.argument = line};
  const auto* const entry = std::find_if(kChatCommands.begin(), kChatCommands.end(),
                                         [&](const ChatCommandEntry& one) { return one.name == word; });
  if (entry == kChatCommands.end())
    return make_error(ErrorKind::kUsage, "there is no %s; /help lists what there is", word.c_str());
  const size_t begin = line.find_first_not_of(" \t", word.size());
  std::string argument = begin == std::string::npos ? "" : line.substr(begin);
  argument.erase(argument.find_last_not_of(" \t") + 1);
  if (entry->value.empty() != argument.empty()) {
    const std::string value(entry->value);
    return make_error(ErrorKind::kUsage, value.empty() ? "%s stands alone%s" : "%s wants a file: %s FILE", word.c_str(),
                      value.empty() ? "" : word.c_str());
  }
  return ChatCommand{.verb = entry->verb, .argument = file_named(std::move(argument))};
}

bool is_chat_command(const std::string& line) {
  const Result<ChatCommand> command = parse_chat_command(line);
  return command.ok() && command->verb != ChatVerb::kMessage;
}

std::string chat_help() {
  std::string text;
  for (const ChatCommandEntry& entry : kChatCommands) {
    const std::string usage = std::string(entry.name) + (entry.value.empty() ? "" : " " + std::string(entry.value));
    text += str_format("%-12s %s\n", usage.c_str(), std::string(entry.help).c_str());
  }
  return text + "a \\ at the end of a line continues the message; pasted lines are one message";
}

Status save_conversation(const Conversation& conversation, const std::string& path) {
  MessagesJson list = MessagesJson::array();
  for (const text::Message& message : conversation.messages())
    list.push_back({{"role", message.role}, {"content", message.content}});
  report::ReportFile file(path);
  EI_RETURN_IF_ERROR(file.put(list.dump(2) + "\n"));
  const Result<int64_t> written = file.commit();
  if (!written.ok()) return written.error();
  return {};
}

Status load_conversation(Conversation& conversation, const std::string& path) {
  EI_ASSIGN_OR_RETURN(const std::string source, read_text_file(path, "conversation"));
  const MessagesJson list = MessagesJson::parse(source, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return bad_file(path, "it is no JSON list");
  std::vector<text::Message> messages;
  for (const MessagesJson& one : list) {
    const bool whole = one.is_object() && one.contains("role") && one["role"].is_string() && one.contains("content") &&
                       one["content"].is_string();
    if (!whole) return bad_file(path, "a message without role and content");
    messages.push_back({.role = one["role"].get<std::string>(), .content = one["content"].get<std::string>()});
  }
  conversation.restore(std::move(messages));
  return {};
}

}  // namespace ei::cli
