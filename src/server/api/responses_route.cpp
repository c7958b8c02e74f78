// /v1/responses: OpenAI's newer shape of a chat.
#include <utility>

#include "server/api/api.h"

namespace ei::server {

namespace {
class ResponsesFormat : public Format {
 public:
  // `asked`: what of the request an answer shows again.
  ResponsesFormat(Facts facts, const Params& params, Json asked)
      : facts_(std::move(facts)), params_(params), asked_(std::move(asked)), parser_(params.style) {}

  Json whole(const std::vector<Choice>& choices) override {
    const Choice& choice = choices.front();
    const AnswerDelta answer = parse_answer(params_.style, choice.text);
    if (!answer.thought.empty()) items_.push_back(item_of(Kind::kThought, "rs_" + random_name(), answer.thought));
    if (!answer.content.empty() || answer.calls.empty())
      items_.push_back(item_of(Kind::kText, "msg_" + random_name(), answer.content));
    for (const ToolCall& call : answer.calls) items_.push_back(call_item(call));
    Json json = response(choice);
    json["timings"] = timings_json(choice.report);
    return json;
  }

  std::string opening(const std::vector<Choice>& choices) override {
    const Json begun = response(choices.front());
    std::string events = named("response.created", {{"response", begun}});
    return events += named("response.in_progress", {{"response", begun}});
  }

  std::string progress(const Choice& choice) override {
    return named("response.in_progress", {{"response", response(choice)},
                                          {"prompt_progress", progress_json(choice.report)},
                                          {"timings", timings_json(choice.report)}});
  }

  std::string piece(const Choice& choice, const TaskToken& token) override {
    return said(parser_.feed(token.text), params_.timings_per_token ? &choice.report : nullptr);
  }

  std::string ending(const Choice&) override {
    std::string events = said(parser_.finish(), nullptr);
    if (open_ == Kind::kNone && items_.empty()) events += begin_item(Kind::kText);
    return events += end_item();
  }

  // Also of an answer that was cut, whose status says `incomplete`: OpenAI would call the event response.incomplete,
  // but llama-server's clients wait for this one.
  std::string closing(const std::vector<Choice>& choices) override {
    const Choice& choice = choices.front();
    return named("response.completed", {{"response", response(choice)}, {"timings", timings_json(choice.report)}});
  }

  std::string failure(const ApiError& error) override {
    return named("error", {{"code", error.status}, {"message", error.message}});
  }

 private:
  enum class Kind { kNone, kThought, kText };

  // Thoughts, words and calls are items of their own, one behind the other.
  std::string said(const AnswerDelta& parsed, const TaskReport* report) {
    std::string events;
    const auto add = [&](Kind kind, const char* event, const std::string& text) {
      if (text.empty()) return;
      if (open_ != kind) events += begin_item(kind);
      text_ += text;
      Json json = inside({{"delta", text}});
      if (kind == Kind::kText) json["logprobs"] = Json::array();
      if (report != nullptr) json["timings"] = timings_json(*report);
      events += named(event, json);
    };
    add(Kind::kThought, "response.reasoning_text.delta", parsed.thought);
    add(Kind::kText, "response.output_text.delta", parsed.content);
    for (const ToolCall& call : parsed.calls) {
      events += end_item();
      events += whole_call(call);
    }
    return events;
  }

  std::string begin_item(Kind kind) {
    std::string events = end_item();
    open_ = kind;
    id_ = (kind == Kind::kText ? "msg_" : "rs_") + random_name();
    Json item = item_of(kind, id_, "");
    item["status"] = "in_progress";
    item["content"] = Json::array();
    events += named("response.output_item.added", {{"output_index", items_.size()}, {"item", item}});
    return events += named("response.content_part.added", inside({{"part", part(kind, "")}}));
  }

  std::string end_item() {
    if (open_ == Kind::kNone) return {};
    const bool words = open_ == Kind::kText;
    Json text = inside({{"text", text_}});
    if (words) text["logprobs"] = Json::array();
    const Json item = item_of(open_, id_, text_);
    std::string events = named(words ? "response.output_text.done" : "response.reasoning_text.done", text);
    events += named("response.content_part.done", inside({{"part", part(open_, text_)}}));
    events += named("response.output_item.done", {{"output_index", items_.size()}, {"item", item}});
    items_.push_back(item);
    open_ = Kind::kNone;
    text_.clear();
    return events;
  }

  std::string whole_call(const ToolCall& call) {
    const Json item = call_item(call);
    Json begun = item;
    begun["arguments"] = "";
    begun["status"] = "in_progress";
    const size_t at = items_.size();
    items_.push_back(item);
    std::string events = named("response.output_item.added", {{"output_index", at}, {"item", begun}});
    events += named("response.function_call_arguments.done",
                    {{"output_index", at}, {"item_id", item["id"]}, {"arguments", item["arguments"]}});
    return events += named("response.output_item.done", {{"output_index", at}, {"item", item}});
  }

  // One at a time: it numbers them.
  std::string named(const char* name, const Json& json) {
    Json event = {{"type", name}, {"sequence_number", sequence_++}};
    event.update(json);
    return event_text(name, event);
  }

  // Of the item that is open.
  Json inside(const Json& json) const {
    Json event = {{"item_id", id_}, {"output_index", items_.size()}, {"content_index", 0}};
    event.update(json);
    return event;
  }

  static Json part(Kind kind, const std::string& text) {
    if (kind == Kind::kThought) return {{"type", "reasoning_text"}, {"text", text}};
    return {{"type", "output_text"}, {"annotations", Json::array()}, {"logprobs", Json::array()}, {"text", text}};
  }

  static Json item_of(Kind kind, const std::string& id, const std::string& text) {
    Json item = {{"id", id}, {"type", kind == Kind::kThought ? "reasoning" : "message"}, {"status", "completed"}};
    if (kind == Kind::kThought) item["summary"] = Json::array();
    if (kind == Kind::kText) item["role"] = "assistant";
    item["content"] = Json::array({part(kind, text)});
    return item;
  }

  static Json call_item(const ToolCall& call) {
    return {{"type", "function_call"}, {"id", "fc_" + random_name()}, {"call_id", "call_" + random_name()},
            {"name", call.name},       {"arguments", call.arguments}, {"status", "completed"}};
  }

  Json response(const Choice& choice) const {
    const TaskReport& report = choice.report;
    const bool cut = choice.done && std::string_view(finish_reason(report)) == "length";
    const char* status = cut ? "incomplete" : choice.done ? "completed" : "in_progress";
    Json json = {{"id", facts_.id},
                 {"object", "response"},
                 {"created_at", facts_.created},
                 {"status", status},
                 {"error", nullptr},
                 {"incomplete_details", cut ? Json{{"reason", "max_output_tokens"}} : Json(nullptr)},
                 {"model", facts_.model},
                 {"output", items_},
                 {"usage",
                  {{"input_tokens", report.prompt_tokens},
                   {"input_tokens_details", {{"cached_tokens", report.cached_tokens}}},
                   {"output_tokens", report.generated_tokens},
                   {"output_tokens_details", {{"reasoning_tokens", 0}}},
                   {"total_tokens", report.prompt_tokens + report.generated_tokens}}}};
    json.update(asked_);
    return json;
  }

  const Facts facts_;
  const Params params_;
  const Json asked_;
  AnswerParser parser_;
  Kind open_ = Kind::kNone;
  std::string id_{};    // of the item that is open
  std::string text_{};  // of it, so far
  Json items_ = Json::array();
  int64_t sequence_ = 0;
};

// Tools, as OpenAI's client wants to see them again.
Json asked_of(const Json& body) {
  const auto given = [&](const char* name, Json otherwise) {
    const auto found = body.find(name);
    return found == body.end() || found->is_null() ? std::move(otherwise) : Json(*found);
  };
  return {{"tools", given("tools", Json::array())},
          {"tool_choice", given("tool_choice", "auto")},
          {"parallel_tool_calls", given("parallel_tool_calls", true)},
          {"text", given("text", {{"format", {{"type", "text"}}}})}};
}

// A member, taken out of an item.
Json taken(Json& item, const char* name, Json otherwise) {
  const auto found = item.find(name);
  return found == item.end() ? std::move(otherwise) : std::move(*found);
}

// Calls and their outputs are items beside the messages here.
Json as_message(Json item) {
  const Json type = item.is_object() ? item.value("type", Json(nullptr)) : Json(nullptr);
  if (type == "function_call_output")
    return {{"role", "tool"}, {"content", taken(item, "output", "")}, {"tool_call_id", taken(item, "call_id", "")}};
  if (type != "function_call") return item;
  Json function = {{"name", taken(item, "name", "")}, {"arguments", taken(item, "arguments", "{}")}};
  Json call = {{"type", "function"}, {"id", taken(item, "call_id", "")}, {"function", std::move(function)}};
  return {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array({std::move(call)})}};
}

// The same in the shape of a chat: `input` is a text or messages, which move, `instructions` the system's.
Json as_chat_of(Json body) {
  Json messages = Json::array();
  if (const auto system = body.find("instructions"); system != body.end() && system->is_string())
    messages.push_back({{"role", "system"}, {"content", *system}});
  if (const auto input = body.find("input"); input != body.end()) {
    if (input->is_string()) messages.push_back({{"role", "user"}, {"content", std::move(*input)}});
    if (input->is_array())
      for (Json& item : *input) messages.push_back(as_message(std::move(item)));
  }
  body["messages"] = std::move(messages);
  const Json reasoning = body.value("reasoning", Json(nullptr));
  if (reasoning.is_object() && reasoning.contains("effort")) body["reasoning_effort"] = reasoning["effort"];
  return body;
}

const char* wrong_input(const Json& body) {
  const auto input = body.find("input");
  if (input == body.end() || input->is_null()) return "is missing";
  return input->is_string() || input->is_array() ? nullptr : "must be a text or a list";
}

// The answer's shape: text.format, a schema beside its type.
void read_text_format(Fields& fields, Params& params) {
  const Json* text = fields.find("text");
  if (text == nullptr) return;
  if (!text->is_object()) return fields.fail("text", "must be an object");
  const auto format = text->find("format");
  if (format != text->end() && !format->is_null()) read_response_format(fields, params, "text.format", &*format);
}

// By the name that the client used.
ApiError in_its_words(ApiError error) {
  const auto rename = [&](const std::string& chats, const std::string& its) {
    if (error.param != chats) return;
    error.param = its;
    if (const std::string name = "'" + chats + "'"; error.message.starts_with(name))
      error.message.replace(0, name.size(), "'" + its + "'");
  };
  rename("messages", "input");
  rename("reasoning_effort", "reasoning.effort");
  return error;
}
}  // namespace

void route_responses(const Call& call) {
  Body body = parse_body(call.request.body);
  if (body.error) return call.refuse(*body.error);
  const char* wrong = wrong_input(body.json);
  const Json chat = as_chat_of(std::move(body.json));
  Fields fields(chat);
  if (wrong != nullptr) fields.fail("input", wrong);
  fields.text("instructions");
  if (const Json* reasoning = fields.find("reasoning"); reasoning != nullptr && !reasoning->is_object())
    fields.fail("reasoning", "must be an object");
  if (fields.has("previous_response_id")) fields.fail("previous_response_id", "is not kept here: send all messages");
  if (fields.flag("background", false)) fields.fail("background", "is not there: nothing is kept between requests");
  TextRequest request;
  request.params = read_params(fields, call.api.options.limits, call.api.tokenizer());
  request.params.choices = 1;
  request.params.forget_probabilities();
  read_text_format(fields, request.params);
  if (!fields.error()) take_chat(fields, read_chat(fields, call, ChatUse::kAnswer), request);
  if (fields.error()) return call.refuse(in_its_words(*fields.error()));
  request.format = std::make_unique<ResponsesFormat>(facts_of(call.api, "resp_"), request.params, asked_of(chat));
  submit(call, std::move(request));
}

}  // namespace ei::server
