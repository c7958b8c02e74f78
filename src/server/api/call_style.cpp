#include "server/api/call_style.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/fields.h"

namespace ei::server {

namespace {
constexpr std::string_view kBlanks = " \t\r\n";
// Words that no template has of its own.
constexpr const char* kTool = "ei_probe_tool";
constexpr const char* kAbout = "ei_probe_about";
constexpr const char* kQuestion = "ei_probe_question";
constexpr const char* kWords = "ei_probe_words";

Json probe_arguments() { return {{"ei_probe_key", 7}}; }

std::string probe_tools() {
  const Json parameters = {{"type", "object"},
                           {"properties", {{"ei_probe_key", {{"type", "integer"}, {"description", "a number"}}}}},
                           {"required", {"ei_probe_key"}}};
  const Json function = {{"name", kTool}, {"description", kAbout}, {"parameters", parameters}};
  return dump(Json::array({{{"type", "function"}, {"function", function}}}));
}

// What the template writes of the question and the answer to it; nothing where it fails.
std::string rendering(const text::ChatTemplate& chat, const text::Message& answer) {
  const text::Message question{.role = "user", .content = kQuestion};
  const std::vector<text::Message> messages = {question, answer};
  const Result<std::string> text = chat.render(messages, /*add_generation_prompt=*/false, {.tools = probe_tools()});
  return text.ok() ? *text : std::string();
}

std::string_view trimmed_end(std::string_view text) {
  const size_t last = text.find_last_not_of(kBlanks);
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

// Behind the question: in front of it lie words about tools.
std::string_view behind_question(std::string_view text) {
  const size_t at = text.rfind(kQuestion);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + std::string_view(kQuestion).size());
}

// The JSON object that begins at `at`; empty where none does.
std::string_view object_at(std::string_view text, size_t at) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0) return text.substr(at, i + 1 - at);
  }
  return {};
}

// A call as a JSON object, and what stands around it.
struct WrittenCall {
  std::string_view before{};
  std::string_view behind{};
  bool parameters = false;  // its arguments' name, else "arguments"
};

std::optional<WrittenCall> find_call(std::string_view text) {
  for (size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{', at + 1)) {
    const std::string_view object = object_at(text, at);
    const Json json = object.empty() ? Json() : parse_inner(std::string(object));
    if (!json.is_object() || json.value("name", Json()) != kTool) continue;
    for (const char* name : {"arguments", "parameters"}) {
      if (json.value(name, Json()) != probe_arguments()) continue;
      return WrittenCall{.before = trimmed_end(text.substr(0, at)),
                         .behind = text.substr(at + object.size()),
                         .parameters = name == std::string_view("parameters")};
    }
  }
  return std::nullopt;
}
}  // namespace

CallStyle call_style_of(const text::ChatTemplate& chat) {
  const Json function = {{"name", kTool}, {"arguments", probe_arguments()}};
  // An id of nine letters and digits: Mistral's templates take no other.
  const Json call = {{"type", "function"}, {"id", "probe1234"}, {"function", function}};
  const std::string called = rendering(
      chat, {.role = "assistant", .content = "", .more = dump(Json{{"tool_calls", Json::array({Json(call)})}})});
  if (called.find(kAbout) == std::string::npos) return CallStyle::kWrapped;
  const std::optional<WrittenCall> written = find_call(behind_question(called));
  if (!written) return CallStyle::kWrapped;
  const size_t next = std::min(written->behind.find_first_not_of(kBlanks), written->behind.size());
  const std::string_view behind = written->behind.substr(next);
  if (!written->parameters && written->before.ends_with("<tool_call>") && behind.starts_with("</tool_call>"))
    return CallStyle::kTagged;
  if (!written->parameters && written->before.ends_with('[') && behind.starts_with(']') &&
      trimmed_end(written->before.substr(0, written->before.size() - 1)).ends_with("[TOOL_CALLS]"))
    return CallStyle::kList;
  // Nothing else beside it: it stands where words would.
  const std::string answered = rendering(chat, {.role = "assistant", .content = kWords});
  const std::string_view words = behind_question(answered);
  const size_t at = words.find(kWords);
  const bool alone = at != std::string_view::npos && trimmed_end(words.substr(0, at)) == written->before;
  return written->parameters && alone ? CallStyle::kPlain : CallStyle::kWrapped;
}

}  // namespace ei::server
