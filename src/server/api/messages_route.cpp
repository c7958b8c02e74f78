// /v1/messages: a chat in Anthropic's shape.
#include <utility>

#include "server/api/api.h"

namespace ei::server {

namespace {
const char* stop_reason(const TaskReport& report) {
  using Ending = Generation::Ending;
  if (report.ending == Ending::kStopString) return "stop_sequence";
  return report.ending == Ending::kEndToken ? "end_turn" : "max_tokens";
}

class MessagesFormat : public Format {
 public:
  explicit MessagesFormat(Facts facts) : facts_(std::move(facts)) {}

  Json whole(const std::vector<Choice>& choices) override {
    const Choice& choice = choices.front();
    Json json = message(choice.report);
    json["content"].push_back({{"type", "text"}, {"text", choice.text}});
    json["stop_reason"] = stop_reason(choice.report);
    json["stop_sequence"] = stop_sequence(choice.report);
    json["usage"]["output_tokens"] = choice.report.generated_tokens;
    return json;
  }

  std::string opening(const std::vector<Choice>& choices) override {
    return event_text("message_start", {{"type", "message_start"}, {"message", message(choices.front().report)}}) +
           event_text(
               "content_block_start",
               {{"type", "content_block_start"}, {"index", 0}, {"content_block", {{"type", "text"}, {"text", ""}}}});
  }

  std::string piece(const Choice&, const TaskToken& token) override {
    if (token.text.empty()) return {};
    return event_text(
        "content_block_delta",
        {{"type", "content_block_delta"}, {"index", 0}, {"delta", {{"type", "text_delta"}, {"text", token.text}}}});
  }

  std::string ending(const Choice& choice) override {
    const Json delta = {{"stop_reason", stop_reason(choice.report)}, {"stop_sequence", stop_sequence(choice.report)}};
    return event_text("content_block_stop", {{"type", "content_block_stop"}, {"index", 0}}) +
           event_text("message_delta", {{"type", "message_delta"},
                                        {"delta", delta},
                                        {"usage", {{"output_tokens", choice.report.generated_tokens}}}});
  }

  std::string closing(const std::vector<Choice>&) override {
    return event_text("message_stop", Json{{"type", "message_stop"}});
  }

  std::string failure(const ApiError& error) override {
    Json json = error.to_json();
    json["type"] = "error";
    return event_text("error", json);
  }

 private:
  static Json stop_sequence(const TaskReport& report) {
    return report.stopped_by.empty() ? Json(nullptr) : Json(report.stopped_by);
  }

  Json message(const TaskReport& report) const {
    return {{"id", facts_.id},
            {"type", "message"},
            {"role", "assistant"},
            {"content", Json::array()},
            {"model", facts_.model},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr},
            {"usage",
             {{"cache_read_input_tokens", report.cached_tokens},
              {"input_tokens", report.prompt_tokens - report.cached_tokens},
              {"output_tokens", 0}}}};
  }

  const Facts facts_;
};

// The same chat in OpenAI's shape: `system` becomes the first message.
Json as_chat(const Json& body) {
  Json chat = body;
  if (body.contains("stop_sequences")) chat["stop"] = body["stop_sequences"];
  const Json system = body.value("system", Json(nullptr));
  const Json messages = body.value("messages", Json(nullptr));
  if (system.is_null() || !messages.is_array()) return chat;
  chat["messages"] = Json::array({{{"role", "system"}, {"content", system}}});
  for (const Json& message : messages) chat["messages"].push_back(message);
  return chat;
}
}  // namespace

void route_messages(const Call& call) {
  const Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  const Json chat = as_chat(body.json);
  Fields fields(chat);
  TextRequest request;
  if (!fields.has("max_tokens")) fields.fail("max_tokens", "is missing");
  request.params = read_params(fields, call.api.options.limits, call.api.tokenizer());
  request.params.choices = 1;
  if (!fields.error()) request.prompts.push_back(read_chat(fields, call.api, /*wants_text=*/false).tokens);
  if (fields.error()) return call.refuse(*fields.error());
  request.format = std::make_unique<MessagesFormat>(facts_of(call.api, "msg_"));
  submit(call, std::move(request));
}

void route_count_messages(const Call& call) {
  const Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  const Json chat = as_chat(body.json);
  Fields fields(chat);
  const ChatPrompt prompt = read_chat(fields, call.api, /*wants_text=*/false);
  if (fields.error()) return call.refuse(*fields.error());
  call.send(Json{{"input_tokens", prompt.tokens.size()}});
}

}  // namespace ei::server
