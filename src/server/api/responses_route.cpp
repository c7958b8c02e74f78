// /v1/responses: OpenAI's newer shape of a chat.
#include <utility>

#include "server/api/api.h"

namespace ei::server {

namespace {
class ResponsesFormat : public Format {
 public:
  ResponsesFormat(Facts facts, const Params& params)
      : facts_(std::move(facts)), params_(params), item_id_("msg_" + random_name()), parser_(params.style) {}

  Json whole(const std::vector<Choice>& choices) override {
    finish(choices.front());
    Json json = response("completed", choices.front());
    json["timings"] = timings_json(choices.front().report);
    return json;
  }

  std::string opening(const std::vector<Choice>& choices) override {
    const Json begun = response("in_progress", choices.front());
    Json item = message("", "in_progress");
    item["content"] = Json::array();
    return named("response.created", {{"response", begun}}) + named("response.in_progress", {{"response", begun}}) +
           named("response.output_item.added", {{"output_index", 0}, {"item", item}}) +
           named("response.content_part.added",
                 {{"item_id", item_id_}, {"output_index", 0}, {"content_index", 0}, {"part", part("")}});
  }

  std::string progress(const Choice& choice) override {
    return named("response.in_progress", {{"response", response("in_progress", choice)},
                                          {"prompt_progress", progress_json(choice.report)},
                                          {"timings", timings_json(choice.report)}});
  }

  std::string piece(const Choice& choice, const TaskToken& token) override {
    const AnswerDelta parsed = parser_.feed(token.text);  // calls follow at the end
    if (parsed.content.empty()) return {};
    Json json = text_event({{"delta", parsed.content}, {"logprobs", Json::array()}});
    if (params_.timings_per_token) json["timings"] = timings_json(choice.report);
    return named("response.output_text.delta", json);
  }

  std::string ending(const Choice& choice) override {
    const AnswerDelta rest = parser_.finish();
    std::string events;
    if (!rest.content.empty())
      events = named("response.output_text.delta", text_event({{"delta", rest.content}, {"logprobs", Json::array()}}));
    finish(choice);
    const std::string text = answer_.content;
    events += named("response.output_text.done", text_event({{"text", text}, {"logprobs", Json::array()}})) +
              named("response.content_part.done", text_event({{"part", part(text)}})) +
              named("response.output_item.done", {{"output_index", 0}, {"item", message(text, "completed")}});
    for (size_t i = 0; i < calls_.size(); ++i) {
      const Json about = {{"output_index", i + 1}, {"item_id", calls_[i]["id"]}};
      Json begun = calls_[i];
      begun["arguments"] = "";
      begun["status"] = "in_progress";
      events += named("response.output_item.added", {{"output_index", i + 1}, {"item", begun}});
      Json arguments = about;
      arguments["arguments"] = calls_[i]["arguments"];
      events += named("response.function_call_arguments.done", arguments) +
                named("response.output_item.done", {{"output_index", i + 1}, {"item", calls_[i]}});
    }
    return events;
  }

  std::string closing(const std::vector<Choice>& choices) override {
    const Choice& choice = choices.front();
    return named("response.completed",
                 {{"response", response("completed", choice)}, {"timings", timings_json(choice.report)}});
  }

  std::string failure(const ApiError& error) override {
    return named("error", {{"code", error.status}, {"message", error.message}});
  }

 private:
  // The whole answer, and its calls as items.
  void finish(const Choice& choice) {
    answer_ = parse_answer(params_.style, choice.text);
    for (const ToolCall& call : answer_.calls)
      calls_.push_back({{"type", "function_call"},
                        {"id", "fc_" + random_name()},
                        {"call_id", "call_" + random_name()},
                        {"name", call.name},
                        {"arguments", call.arguments},
                        {"status", "completed"}});
  }

  Json output() const {
    Json items = Json::array();
    if (!answer_.content.empty() || calls_.empty()) items.push_back(message(answer_.content, "completed"));
    for (const Json& call : calls_) items.push_back(call);
    return items;
  }

  std::string named(const char* name, const Json& json) {
    Json event = {{"type", name}, {"sequence_number", sequence_++}};
    event.update(json);
    return event_text(name, event);
  }

  Json text_event(const Json& json) const {
    Json event = {{"item_id", item_id_}, {"output_index", 0}, {"content_index", 0}};
    event.update(json);
    return event;
  }

  static Json part(const std::string& text) {
    return {{"type", "output_text"}, {"annotations", Json::array()}, {"logprobs", Json::array()}, {"text", text}};
  }

  Json message(const std::string& text, const char* status) const {
    return {{"id", item_id_},
            {"type", "message"},
            {"role", "assistant"},
            {"status", status},
            {"content", Json::array({part(text)})}};
  }

  Json response(const char* status, const Choice& choice) const {
    const TaskReport& report = choice.report;
    return {{"id", facts_.id},
            {"object", "response"},
            {"created_at", facts_.created},
            {"status", status},
            {"model", facts_.model},
            {"output", choice.done ? output() : Json::array()},
            {"parallel_tool_calls", false},
            {"tool_choice", "none"},
            {"tools", Json::array()},
            {"usage",
             {{"input_tokens", report.prompt_tokens},
              {"input_tokens_details", {{"cached_tokens", report.cached_tokens}}},
              {"output_tokens", report.generated_tokens},
              {"output_tokens_details", {{"reasoning_tokens", 0}}},
              {"total_tokens", report.prompt_tokens + report.generated_tokens}}}};
  }

  const Facts facts_;
  const Params params_;
  const std::string item_id_;
  AnswerParser parser_;
  AnswerDelta answer_{};
  std::vector<Json> calls_{};
  int64_t sequence_ = 0;
};

// Calls and their outputs are items beside the messages here.
Json as_message(const Json& item) {
  const Json type = item.is_object() ? item.value("type", Json(nullptr)) : Json(nullptr);
  if (type == "function_call_output")
    return {{"role", "tool"},
            {"content", item.value("output", Json(""))},
            {"tool_call_id", item.value("call_id", Json(""))}};
  if (type != "function_call") return item;
  const Json function = {{"name", item.value("name", Json(""))}, {"arguments", item.value("arguments", Json("{}"))}};
  Json call = {{"type", "function"}, {"id", item.value("call_id", Json(""))}, {"function", function}};
  return {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array({std::move(call)})}};
}

// The same in the shape of a chat: `input` is a text or messages, `instructions` the system's.
Json as_chat_of(const Json& body) {
  Json chat = body;
  if (body.contains("max_output_tokens")) chat["max_tokens"] = body["max_output_tokens"];
  Json messages = Json::array();
  if (const Json system = body.value("instructions", Json(nullptr)); system.is_string())
    messages.push_back({{"role", "system"}, {"content", system}});
  const Json input = body.value("input", Json(nullptr));
  if (input.is_string()) messages.push_back({{"role", "user"}, {"content", input}});
  if (input.is_array())
    for (const Json& item : input) messages.push_back(as_message(item));
  chat["messages"] = std::move(messages);
  return chat;
}
}  // namespace

void route_responses(const Call& call) {
  const Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  const Json chat = as_chat_of(body.json);
  Fields fields(chat);
  if (!fields.has("input")) fields.fail("input", "is missing");
  if (fields.has("previous_response_id")) fields.fail("previous_response_id", "is not kept here: send all messages");
  TextRequest request;
  request.params = read_params(fields, call.api.options.limits, call.api.tokenizer());
  request.params.choices = 1;
  if (!fields.error()) take_chat(fields, read_chat(fields, call.api, /*wants_text=*/false), request);
  if (fields.error()) return call.refuse(*fields.error());
  request.format = std::make_unique<ResponsesFormat>(facts_of(call.api, "resp_"), request.params);
  submit(call, std::move(request));
}

}  // namespace ei::server
