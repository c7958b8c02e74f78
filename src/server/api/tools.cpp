#include "server/api/tools.h"

#include <utility>

#include "text/json_schema.h"

namespace ei::server {

namespace {
constexpr size_t kMaxTools = 128;
constexpr const char* kOpen = "<tool_call>";

// One tool in OpenAI's shape; Anthropic's and that of /v1/responses are put into it.
Json as_function(const Json& tool) {
  if (!tool.is_object()) return nullptr;
  if (tool.contains("function")) return tool;
  if (!tool.contains("name")) return nullptr;
  Json function = {{"name", tool["name"]}, {"description", tool.value("description", Json(""))}};
  function["parameters"] =
      tool.contains("input_schema") ? tool["input_schema"] : tool.value("parameters", Json(nullptr));
  return {{"type", "function"}, {"function", std::move(function)}};
}

bool is_function(const Json& tool) {
  if (!tool.is_object()) return false;
  const Json function = tool.value("function", Json(nullptr));
  return function.is_object() && function.contains("name") && function["name"].is_string();
}

// "none", "auto", "required", or one tool by name, in OpenAI's or Anthropic's shape.
void read_choice(Fields& fields, Tools& tools) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  const Json type = choice->is_object() ? choice->value("type", Json(nullptr)) : *choice;
  if (choice->is_object() && choice->value("disable_parallel_tool_use", Json(false)) == true) tools.parallel = false;
  if (type == "auto") return;
  if (type == "none") {
    tools.style = CallStyle::kNone;
    return;
  }
  tools.required = true;
  if (type == "required" || type == "any") return;
  Json name = choice->is_object() ? choice->value("name", Json(nullptr)) : Json(nullptr);
  if (choice->is_object() && choice->contains("function") && (*choice)["function"].is_object())
    name = (*choice)["function"].value("name", Json(nullptr));
  for (const Json& tool : tools.list) {
    if (tool["function"]["name"] != name) continue;
    tools.list = Json::array({Json(tool)});
    return;
  }
  fields.fail("tool_choice", "must be none, auto, required, or one of the tools");
}

Json call_schema(const Json& tool, const char* arguments) {
  const Json& function = tool["function"];
  Json parameters = function.value("parameters", Json(nullptr));
  if (!parameters.is_object() || parameters.empty()) parameters = {{"type", "object"}};
  return {{"type", "object"},
          {"properties", {{"name", {{"const", function["name"]}}}, {arguments, std::move(parameters)}}},
          {"required", {"name", arguments}}};
}

Json any_call(const Tools& tools) {
  const char* arguments = tools.style == CallStyle::kPlain ? "parameters" : "arguments";
  Json calls = Json::array();
  for (const Json& tool : tools.list) calls.push_back(call_schema(tool, arguments));
  return calls.size() == 1 ? calls.front() : Json{{"anyOf", std::move(calls)}};
}

// The rules of a schema, its root under another name.
Result<std::string> rules_of(const Json& schema, const std::string& root) {
  EI_ASSIGN_OR_RETURN(std::string rules, text::json_schema_to_gbnf(dump(schema)));
  const std::string head = "root ::=";
  const size_t at = rules.starts_with(head) ? 0 : rules.find("\n" + head);
  if (at == std::string::npos) return make_error(ErrorKind::kUsage, "a tool's parameters are no schema");
  rules.replace(at == 0 ? 0 : at + 1, head.size(), root + " ::=");
  return rules;
}

text::Token single_token(const text::Tokenizer& tokenizer, const char* text) {
  const Result<std::vector<text::Token>> tokens = tokenizer.tokenize(text, {.parse_special = true});
  return tokens.ok() && tokens->size() == 1 ? tokens->front() : text::kNoToken;
}

std::optional<ToolCall> call_of(const Json& json) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return std::nullopt;
  const Json arguments = json.contains("arguments") ? json["arguments"] : json.value("parameters", Json(nullptr));
  ToolCall call{.name = json["name"].get<std::string>(), .arguments = "{}"};
  if (arguments.is_string()) {
    call.arguments = arguments.get<std::string>();
  } else if (!arguments.is_null()) {
    call.arguments = dump(arguments);
  }
  return call;
}
}  // namespace

Tools read_tools(Fields& fields, CallStyle style) {
  Tools tools;
  const Json* given = fields.find("tools");
  if (given == nullptr || given->empty()) return tools;
  if (!given->is_array() || given->size() > kMaxTools) {
    fields.fail("tools", "must be a list of at most 128 tools");
    return tools;
  }
  for (const Json& tool : *given) {
    tools.list.push_back(as_function(tool));
    if (is_function(tools.list.back())) continue;
    fields.fail("tools", "must be functions with a name");
    return tools;
  }
  tools.style = style;
  tools.parallel = fields.flag("parallel_tool_calls", true);
  read_choice(fields, tools);
  return tools;
}

Result<CallGrammar> call_grammar(const Tools& tools, const text::Tokenizer& tokenizer) {
  CallGrammar made;
  if (tools.style == CallStyle::kWrapped) {
    Json shapes = Json::array(
        {{{"type", "object"}, {"properties", {{"tool_call", any_call(tools)}}}, {"required", {"tool_call"}}}});
    if (!tools.required)
      shapes.push_back(
          {{"type", "object"}, {"properties", {{"response", {{"type", "string"}}}}}, {"required", {"response"}}});
    EI_ASSIGN_OR_RETURN(made.grammar, text::json_schema_to_gbnf(dump(Json{{"anyOf", std::move(shapes)}})));
    return made;
  }
  if (!tools.required) {
    made.from = tools.style == CallStyle::kTagged ? single_token(tokenizer, kOpen) : text::kNoToken;
    if (made.from == text::kNoToken) return made;
  }
  EI_ASSIGN_OR_RETURN(const std::string call, rules_of(any_call(tools), "call"));
  std::string root = "root ::= call\n";
  if (tools.style == CallStyle::kTagged) {
    root = "root ::= tagged" + std::string(tools.parallel ? " (\"\\n\" tagged)*" : "") +
           "\ntagged ::= \"<tool_call>\\n\" call \"\\n</tool_call>\"\n";
  } else if (tools.style == CallStyle::kList) {
    root = "root ::= \"[TOOL_CALLS]\"? \"[\" call" + std::string(tools.parallel ? " (\", \" call)*" : "") + " \"]\"\n";
  }
  made.grammar = root + call;
  return made;
}

std::string tools_in_words(const Tools& tools) {
  return "You can call these tools:\n" + dump(tools.list) +
         "\nAnswer in JSON: {\"tool_call\": {\"name\": ..., \"arguments\": {...}}} calls one, {\"response\": \"...\"} "
         "answers in words.";
}

void put_calls_in_words(std::vector<text::Message>& messages) {
  std::vector<text::Message> told;
  bool behind_result = false;  // templates want the roles in turns: what the user says next joins it
  for (text::Message& message : messages) {
    Json more = message.more.empty() ? Json::object() : Json::parse(message.more, nullptr, /*allow_exceptions=*/false);
    const bool result = message.role == "tool";
    if (message.role == "assistant" && more.contains("tool_calls")) {
      for (const Json& call : more["tool_calls"]) {
        const Json& function = call["function"];
        const Json written = {{"tool_call", {{"name", function["name"]}, {"arguments", function["arguments"]}}}};
        message.content += (message.content.empty() ? "" : "\n") + dump(written);
      }
      more.erase("tool_calls");
      message.more = more.empty() ? "" : dump(more);
    }
    if (result) message = {.role = "user", .content = dump(Json{{"tool_result", message.content}})};
    const bool joins = behind_result && message.role == "user";
    if (joins) {
      told.back().content += "\n" + message.content;
    } else {
      told.push_back(std::move(message));
    }
    behind_result = result || joins;
  }
  messages = std::move(told);
}

std::optional<std::vector<ToolCall>> parse_calls(CallStyle style, const std::string& text) {
  const Json json = parse_inner(text);
  if (json.is_discarded()) return std::nullopt;
  std::vector<ToolCall> calls;
  const auto add = [&](const Json& one) {
    std::optional<ToolCall> call = call_of(one);
    if (call) calls.push_back(std::move(*call));
    return call.has_value();
  };
  if (style == CallStyle::kWrapped) {
    if (!json.is_object() || !json.contains("tool_call") || !add(json["tool_call"])) return std::nullopt;
    return calls;
  }
  if (!json.is_array()) {
    if (!add(json)) return std::nullopt;
    return calls;
  }
  for (const Json& one : json)
    if (!add(one)) return std::nullopt;
  return calls;
}

}  // namespace ei::server
