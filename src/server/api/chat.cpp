// The messages of a chat, and what a client may say about the shape of the answer.
#include <utility>

#include "server/api/api.h"

namespace ei::server {

namespace {
constexpr size_t kMaxMessages = 10000;

// A text, or a list of parts that are texts.
std::string read_content(Fields& fields, const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (content.is_array()) {
    for (const Json& part : content) {
      const Json type = part.is_object() ? part.value("type", Json("text")) : Json(nullptr);
      const bool is_text = part.is_object() && part.contains("text") && part["text"].is_string() &&
                           (type == "text" || type == "input_text" || type == "output_text");
      if (!is_text) {
        fields.fail("messages", "may hold texts only: this model reads nothing else");
        return {};
      }
      text += (text.empty() ? "" : "\n") + part["text"].get<std::string>();
    }
    return text;
  }
  fields.fail("messages", "need a 'content' each: a text, or a list of texts");
  return {};
}

std::vector<text::Message> read_messages(Fields& fields) {
  const Json* given = fields.find("messages");
  std::vector<text::Message> messages;
  if (given == nullptr || !given->is_array() || given->empty() || given->size() > kMaxMessages) {
    fields.fail("messages", given == nullptr ? "is missing" : "must be a list of messages");
    return messages;
  }
  for (const Json& message : *given) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      fields.fail("messages", "must be objects with a 'role'");
      return messages;
    }
    if (message.contains("tool_calls") && !message["tool_calls"].is_null())
      fields.fail("messages", "with 'tool_calls' are not supported yet");
    messages.push_back({.role = message["role"].get<std::string>(),
                        .content = read_content(fields, message.value("content", Json(nullptr)))});
    if (fields.error()) return messages;
  }
  return messages;
}
}  // namespace

ChatPrompt read_chat(Fields& fields, const Api& api, bool wants_text) {
  ChatPrompt prompt;
  if (!api.chat) {
    fields.fail({.message = "this model has no chat template: start the server with --chat-template, or use "
                            "/v1/completions"});
    return prompt;
  }
  if (const Json* tools = fields.find("tools"); tools != nullptr && !tools->empty())
    fields.fail("tools", "are not supported yet");
  std::vector<text::Message> messages = read_messages(fields);
  const bool continues_asked = fields.flag("continue_final_message", false);
  const bool adds_asked = fields.flag("add_generation_prompt", !continues_asked);
  if (continues_asked && adds_asked)
    fields.fail("continue_final_message", "and 'add_generation_prompt' exclude each other");
  if (fields.error()) return prompt;
  // An answer that has been begun is gone on with.
  const bool continues = messages.back().role == "assistant" && (continues_asked || adds_asked);
  std::string begun;
  if (continues) {
    begun = std::exchange(messages.back().content, {});
    messages.pop_back();
    if (messages.empty() || messages.back().role == "assistant") {
      fields.fail("messages", "cannot end with two messages of the assistant, nor begin with one to go on with");
      return prompt;
    }
  }
  const bool adds = continues || adds_asked;
  Result<std::vector<int32_t>> tokens = api.chat->apply(messages, api.tokenizer(), adds, begun);
  if (!tokens.ok()) {
    fields.fail(from_engine({ErrorKind::kUsage, tokens.error().message}));
    return prompt;
  }
  prompt.tokens = std::move(*tokens);
  if (!wants_text) return prompt;
  Result<std::string> text = api.chat->render(messages, adds);
  if (!text.ok()) {
    fields.fail(from_engine(text.error()));
  } else {
    prompt.text = *text + begun;
  }
  return prompt;
}

void read_response_format(Fields& fields, Params& params) {
  const Json* format = fields.find("response_format");
  if (format == nullptr) return;
  const auto fail = [&](const char* message) { fields.fail("response_format", message); };
  if (!format->is_object() || !format->contains("type") || !(*format)["type"].is_string())
    return fail("must be an object with a 'type'");
  const std::string type = (*format)["type"].get<std::string>();
  if (type == "text") return;
  if (type != "json_object" && type != "json_schema") return fail("must be text, json_object or json_schema");
  Json schema = {{"type", "object"}};
  if (type == "json_object" && format->contains("schema")) schema = (*format)["schema"];
  if (type == "json_schema") {
    const Json outer = format->value("json_schema", Json(nullptr));
    if (!outer.is_object() || !outer.contains("schema")) return fail("needs 'json_schema' with a 'schema'");
    schema = outer["schema"];
  }
  if (!schema.is_object()) return fail("needs a schema that is an object");
  if (!params.generate.sampler.grammar.empty() || !params.generate.sampler.json_schema.empty())
    return fail("does not go with another grammar or schema");
  params.generate.sampler.json_schema = dump(schema);
}

}  // namespace ei::server
