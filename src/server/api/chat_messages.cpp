// The messages of a chat, in OpenAI's and Anthropic's shapes, as templates read them.
#include <utility>

#include "server/api/api.h"
#include "server/api/named_texts.h"

namespace ei::server {

namespace {
constexpr size_t kMaxMessages = 10000;

bool is_text_part(const Json& part) {
  const Json type = part.is_object() ? part.value("type", Json("text")) : Json(nullptr);
  return part.is_object() && part.contains("text") && part["text"].is_string() &&
         (type == "text" || type == "input_text" || type == "output_text");
}

void fail_content(Fields& fields) { fields.fail("messages", "may hold texts only: this model reads nothing else"); }

// A text, or a list of parts that are texts, here or left at /texts before.
std::string read_content(Fields& fields, NamedTexts& named, const Json& content, const char* between = "\n") {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (content.is_array()) {
    for (const Json& part : content) {
      const std::shared_ptr<const std::string> left = named.find(part);
      if (fields.error()) return {};
      if (left == nullptr && !is_text_part(part)) {
        fail_content(fields);
        return {};
      }
      text += (text.empty() ? "" : between) + (left != nullptr ? *left : part["text"].get<std::string>());
    }
    return text;
  }
  fields.fail("messages", "need a 'content' each: a text, or a list of texts");
  return {};
}

// Templates write arguments out as JSON: a text that holds some becomes what it says.
Json call_json(const Json& id, const Json& name, Json arguments) {
  if (arguments.is_string()) {
    Json parsed = parse_inner(arguments.get<std::string>());
    if (parsed.is_object()) arguments = std::move(parsed);
  }
  return {{"type", "function"}, {"id", id}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
}

// OpenAI's tool_calls.
Json read_calls(Fields& fields, const Json& calls) {
  Json list = Json::array();
  for (const Json& call : calls) {
    const Json function = call.is_object() ? call.value("function", Json(nullptr)) : Json(nullptr);
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) {
      fields.fail("messages", "have 'tool_calls' that name no function");
      return list;
    }
    list.push_back(
        call_json(call.value("id", Json("")), function["name"], function.value("arguments", Json::object())));
  }
  return list;
}

class MessageReader {
 public:
  MessageReader(Fields& fields, const Call& call) : fields_(fields), named_(fields, call) {}

  // `last`: of the chat. An answer that was begun in parts is gone on with, and its parts are paragraphs, as in
  // llama-server.
  void read(const Json& message, bool last) {
    const std::string role = message["role"].get<std::string>();
    const Json content = message.value("content", Json(nullptr));
    if (holds_blocks(content)) return read_blocks(role, content);
    Json more = Json::object();
    const Json calls = message.value("tool_calls", Json(nullptr));
    if (calls.is_array() && !calls.empty()) more["tool_calls"] = read_calls(fields_, calls);
    for (const char* name : {"reasoning_content", "tool_call_id", "name"})
      if (message.contains(name) && message[name].is_string()) more[name] = message[name];
    const bool calls_alone = content.is_null() && more.contains("tool_calls");
    const char* between = last && role == "assistant" ? "\n\n" : "\n";
    add(role, calls_alone ? std::string() : read_content(fields_, named_, content, between), more);
  }
  std::vector<text::Message> messages{};

 private:
  // Anthropic's blocks that are more than text.
  static bool holds_blocks(const Json& content) {
    if (!content.is_array()) return false;
    for (const Json& part : content) {
      const Json type = part.is_object() ? part.value("type", Json(nullptr)) : Json(nullptr);
      if (type == "tool_use" || type == "tool_result" || type == "thinking" || type == "redacted_thinking") return true;
    }
    return false;
  }

  // Results of tools become messages of their own, in front of what is said beside them.
  void read_blocks(const std::string& role, const Json& blocks) {
    std::string text;
    Json more = Json::object();
    for (const Json& block : blocks) {
      const Json type = block.is_object() ? block.value("type", Json(nullptr)) : Json(nullptr);
      if (type == "tool_use") {
        more["tool_calls"].push_back(call_json(block.value("id", Json("")), block.value("name", Json("")),
                                               block.value("input", Json::object())));
      } else if (type == "tool_result") {
        const Json result = block.value("content", Json(""));
        add("tool", read_content(fields_, named_, result), {{"tool_call_id", block.value("tool_use_id", Json(""))}});
      } else if (type == "thinking") {
        more["reasoning_content"] = block.value("thinking", Json(""));
      } else if (is_text_part(block)) {
        text += (text.empty() ? "" : "\n") + block["text"].get<std::string>();
      } else if (type != "redacted_thinking") {
        return fail_content(fields_);
      }
    }
    if (!text.empty() || !more.empty()) add(role, text, more);
  }

  void add(const std::string& role, std::string content, const Json& more) {
    messages.push_back({.role = role, .content = std::move(content), .more = more.empty() ? "" : dump(more)});
  }

  Fields& fields_;
  NamedTexts named_;
};
}  // namespace

std::vector<text::Message> read_messages(Fields& fields, const Call& call) {
  const Json* given = fields.find("messages");
  MessageReader reader(fields, call);
  if (given == nullptr || !given->is_array() || given->empty() || given->size() > kMaxMessages) {
    fields.fail("messages", given == nullptr ? "is missing" : "must be a list of messages");
    return {};
  }
  for (const Json& message : *given) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      fields.fail("messages", "must be objects with a 'role'");
      return {};
    }
    reader.read(message, &message == &given->back());
    if (fields.error()) return {};
  }
  // Blocks of hidden thoughts alone say nothing, and whoever asks for the last message needs one.
  if (reader.messages.empty()) fields.fail("messages", "hold neither a text nor a call");
  return std::move(reader.messages);
}

}  // namespace ei::server
