// /v1/messages: a chat in Anthropic's shape.
#include <utility>

#include "server/api/api.h"

namespace ei::server {

namespace {
const char* stop_reason(const TaskReport& report, bool calls) {
  using Ending = Generation::Ending;
  if (calls) return "tool_use";
  if (report.ending == Ending::kStopString) return "stop_sequence";
  return report.ending == Ending::kEndToken ? "end_turn" : "max_tokens";
}

Json input_of(const ToolCall& call) {
  Json parsed = parse_inner(call.arguments);
  return parsed.is_object() ? parsed : Json::object();
}

class MessagesFormat : public Format {
 public:
  MessagesFormat(Facts facts, const Params& params)
      : facts_(std::move(facts)),
        style_(params.style),
        shows_timings_(params.may_lose() || params.timings_per_token),
        parser_(params.style) {}

  Json whole(const std::vector<Choice>& choices) override {
    const Choice& choice = choices.front();
    const AnswerDelta answer = parse_answer(style_, choice.text);
    Json json = message(choice.report);
    if (!answer.thought.empty())
      json["content"].push_back({{"type", "thinking"}, {"thinking", answer.thought}, {"signature", ""}});
    if (!answer.content.empty() || answer.calls.empty())
      json["content"].push_back({{"type", "text"}, {"text", answer.content}});
    for (const ToolCall& call : answer.calls) {
      Json block = call_block(call);
      block["input"] = input_of(call);
      json["content"].push_back(std::move(block));
    }
    json["stop_reason"] = stop_reason(choice.report, !answer.calls.empty());
    json["stop_sequence"] = stop_sequence(choice.report);
    json["usage"]["output_tokens"] = choice.report.generated_tokens;
    if (shows_timings_) json["timings"] = timings_json(choice.report);
    return json;
  }

  std::string opening(const std::vector<Choice>& choices) override {
    return event_text("message_start", {{"type", "message_start"}, {"message", message(choices.front().report)}});
  }

  // What Anthropic's clients pass over.
  std::string progress(const Choice& choice) override {
    return event_text("ping", {{"type", "ping"}, {"prompt_progress", progress_json(choice.report)}});
  }

  std::string piece(const Choice&, const TaskToken& token) override { return said(parser_.feed(token.text)); }

  std::string ending(const Choice& choice) override {
    std::string events = said(parser_.finish());
    if (blocks_ == 0) events += open_block({{"type", "text"}, {"text", ""}});
    events += close_block();
    const Json delta = {{"stop_reason", stop_reason(choice.report, called_)},
                        {"stop_sequence", stop_sequence(choice.report)}};
    Json json = {
        {"type", "message_delta"}, {"delta", delta}, {"usage", {{"output_tokens", choice.report.generated_tokens}}}};
    if (shows_timings_) json["timings"] = timings_json(choice.report);
    return events + event_text("message_delta", json);
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

  static Json call_block(const ToolCall& call) {
    return {{"type", "tool_use"}, {"id", "toolu_" + random_name()}, {"name", call.name}, {"input", Json::object()}};
  }

  // Thoughts, words and calls are blocks of their own, one behind the other.
  std::string said(const AnswerDelta& parsed) {
    std::string events;
    if (!parsed.thought.empty()) {
      if (open_ != "thinking") events += open_block({{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      events += delta({{"type", "thinking_delta"}, {"thinking", parsed.thought}});
    }
    if (!parsed.content.empty()) {
      if (open_ != "text") events += open_block({{"type", "text"}, {"text", ""}});
      events += delta({{"type", "text_delta"}, {"text", parsed.content}});
    }
    for (const ToolCall& call : parsed.calls) {
      events += open_block(call_block(call));
      events += delta({{"type", "input_json_delta"}, {"partial_json", call.arguments}});
      called_ = true;
    }
    return events;
  }

  std::string open_block(const Json& block) {
    const std::string before = close_block();
    open_ = block["type"].get<std::string>();
    return before + event_text("content_block_start",
                               {{"type", "content_block_start"}, {"index", blocks_++}, {"content_block", block}});
  }

  std::string close_block() {
    if (open_.empty()) return {};
    open_.clear();
    return event_text("content_block_stop", {{"type", "content_block_stop"}, {"index", blocks_ - 1}});
  }

  std::string delta(const Json& json) const {
    return event_text("content_block_delta",
                      {{"type", "content_block_delta"}, {"index", blocks_ - 1}, {"delta", json}});
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
  const AnswerStyle style_;
  const bool shows_timings_;  // Anthropic has none: only who asks for a method, or for them, gets them
  AnswerParser parser_;
  std::string open_{};  // the type of the block that is open
  int blocks_ = 0;
  bool called_ = false;
};

// {"type": "enabled"} or "disabled" is said to the template, unless the request has its own word to it.
void pass_on_thinking(Json& chat) {
  const Json thinking = chat.value("thinking", Json(nullptr));
  const Json type = thinking.is_object() ? thinking.value("type", Json(nullptr)) : Json(nullptr);
  if (type != "enabled" && type != "disabled") return;
  Json& variables = chat["chat_template_kwargs"];
  if (variables.is_null()) variables = Json::object();
  if (variables.is_object()) variables.emplace("enable_thinking", type == "enabled");
}

// The same chat in OpenAI's shape: `system` becomes the first message. Nobody has to have said anything: llama-server
// answers an empty list, too.
Json as_chat(Json body) {
  pass_on_thinking(body);
  const auto given = body.find("messages");
  if (given == body.end() || !given->is_array()) return body;
  if (given->empty()) given->push_back({{"role", "user"}, {"content", ""}});
  const auto system = body.find("system");
  if (system != body.end() && !system->is_null())
    given->insert(given->begin(), Json{{"role", "system"}, {"content", *system}});
  return body;
}

void check_system_and_thinking(Fields& fields) {
  const Json* system = fields.find("system");
  if (system != nullptr && !system->is_string() && !system->is_array())
    fields.fail("system", "must be a text or a list of texts");
  const Json* thinking = fields.find("thinking");
  if (thinking == nullptr) return;
  const Json type = thinking->is_object() ? thinking->value("type", Json(nullptr)) : Json(nullptr);
  if (type != "enabled" && type != "disabled" && type != "adaptive")
    fields.fail("thinking", "must be an object whose 'type' is enabled, disabled or adaptive");
}
}  // namespace

void route_messages(const Call& call) {
  Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  const Json chat = as_chat(std::move(body.json));
  Fields fields(chat);
  TextRequest request;
  if (!fields.has("max_tokens")) fields.fail("max_tokens", "is missing");
  check_system_and_thinking(fields);
  request.params = read_params(fields, call.api.options.limits, call.api.tokenizer());
  request.params.choices = 1;
  request.params.forget_probabilities();
  if (!fields.error()) take_chat(fields, read_chat(fields, call, ChatUse::kAnswer), request);
  if (fields.error()) return call.refuse(*fields.error());
  request.format = std::make_unique<MessagesFormat>(facts_of(call.api, "msg_"), request.params);
  submit(call, std::move(request));
}

void route_count_messages(const Call& call) {
  Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  const Json chat = as_chat(std::move(body.json));
  Fields fields(chat);
  check_system_and_thinking(fields);
  const ChatPrompt prompt = read_chat(fields, call, ChatUse::kCount);
  if (fields.error()) return call.refuse(*fields.error());
  call.send(Json{{"input_tokens", prompt.tokens.size()}});
}

}  // namespace ei::server
