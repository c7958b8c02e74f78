// The messages of a chat, and what a client may say about the shape of the answer.
#include <algorithm>
#include <cctype>
#include <ctime>
#include <string_view>
#include <utility>

#include "server/api/api.h"
#include "server/api/prompt_limit.h"

namespace ei::server {

namespace {
std::string date(const char* form) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[64] = {};
  return std::string(text, std::strftime(text, sizeof text, form, &local));
}

// OpenAI's: a variable of templates that know it; none: no thoughts at all. Its text is the prompt's, hence a word.
void read_effort(Fields& fields, Json& variables) {
  constexpr size_t kMostBytes = 32;
  const std::string effort = fields.text("reasoning_effort");
  const bool word = effort.size() <= kMostBytes && std::all_of(effort.begin(), effort.end(), [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '_' || c == '-';
                    });
  if (!word) return fields.fail("reasoning_effort", "must be none, low, medium, high or another short word");
  if (effort == "none") {
    variables["enable_thinking"] = false;
    variables.erase("reasoning_effort");
  } else if (!effort.empty()) {
    variables["reasoning_effort"] = effort;
  }
}

// Further variables of the template: the date, whether to think, and what the request adds.
Json template_variables(Fields& fields, const Api& api) {
  Json variables = {{"date_string", date("%d %b %Y")}, {"datetime", date("%b %d %Y")}};
  variables["enable_thinking"] = api.options.reasoning != "off";  // templates take a missing one for false
  if (const Json* given = fields.find("chat_template_kwargs")) {
    if (!given->is_object()) {
      fields.fail("chat_template_kwargs", "must be an object");
    } else {
      variables.update(*given);
    }
  }
  read_effort(fields, variables);
  return variables;
}

bool ends_with_think(std::string_view text) {
  const size_t last = text.find_last_not_of(" \n");
  return last != std::string_view::npos && text.substr(0, last + 1).ends_with(kThink);
}

// As llama.cpp names them; all but none are the same here.
bool is_reasoning_format(std::string_view name) {
  return name == "none" || name == "auto" || name == "deepseek" || name == "deepseek-legacy";
}

// Templates whose calls nobody could read tell of tools in words.
void tell_of_tools(const Tools& tools, std::vector<text::Message>& messages, text::TemplateExtras& extras) {
  if (!tools.any()) return;
  if (tools.style != CallStyle::kWrapped) {
    extras.tools = dump(tools.list);
    return;
  }
  const std::string words = tools_in_words(tools);
  if (messages.front().role == "system") {
    messages.front().content += "\n\n" + words;
  } else {
    messages.insert(messages.begin(), {.role = "system", .content = words});
  }
}
}  // namespace

ChatPrompt read_chat(Fields& fields, const Call& call, ChatUse use) {
  const Api& api = call.api;
  ChatPrompt prompt;
  if (!api.chat) {
    fields.fail({.message = "this model has no chat template: start the server with --chat-template, or use "
                            "/v1/completions"});
    return prompt;
  }
  const Tools tools = read_tools(fields, api.calls);
  std::vector<text::Message> messages = read_messages(fields, call);
  const Json variables = template_variables(fields, api);
  text::TemplateExtras extras{.variables = dump(variables)};
  const bool continues_asked = fields.flag("continue_final_message", false);
  const bool adds_asked = fields.flag("add_generation_prompt", !continues_asked);
  if (continues_asked && adds_asked)
    fields.fail("continue_final_message", "and 'add_generation_prompt' exclude each other");
  const std::string format = fields.text("reasoning_format", api.options.parts_thoughts ? "auto" : "none");
  if (!is_reasoning_format(format)) fields.fail("reasoning_format", "must be none, auto or deepseek");
  if (fields.error()) return prompt;
  // An answer that has been begun is gone on with.
  const text::Message& last = messages.back();
  const bool continues = last.role == "assistant" && last.more.empty() && (continues_asked || adds_asked);
  if (api.calls == CallStyle::kWrapped) put_calls_in_words(messages);
  tell_of_tools(tools, messages, extras);
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
  const bool tools_spell = !api.tokenizer().find_control_text(extras.tools).empty();
  const auto refuse = [&](const Error& error) {
    fields.fail({.message = error.message, .param = tools_spell ? "tools" : "messages"});
    return prompt;
  };
  prompt.style = {.calls = tools.style, .parts_thoughts = format != "none"};
  std::string text;
  const bool may_think = adds && api.chat->source().find(kThink) != std::string::npos;
  if (use == ChatUse::kText || may_think) {
    Result<std::string> rendered = api.chat->render(messages, adds, extras);
    if (!rendered.ok()) return refuse(rendered.error());
    text = std::move(*rendered);
  }
  if (may_think && ends_with_think(text)) {
    // A template that has every answer begin with a thought is told not to by ending it at once.
    if (variables["enable_thinking"] == false) extras.suffix = "</think>";
    prompt.style.begins_thinking = extras.suffix.empty() && begun.empty();
  }
  PromptLimit limit(api.tokenizer(), api.context(), call.gone.get());
  const auto check = [&](std::string_view piece, bool special) -> Status {
    if (use != ChatUse::kAnswer || limit.may_fit(piece, special)) return {};
    return Error{ErrorKind::kUsage, limit.error()->message};
  };
  Result<std::vector<int32_t>> tokens = api.chat->apply(messages, api.tokenizer(), adds, begun, extras, check);
  if (limit.error()) {
    fields.fail(*limit.error());
    return prompt;
  }
  if (!tokens.ok()) return refuse(tokens.error());
  prompt.tokens = std::move(*tokens);
  prompt.text = text + extras.suffix + begun;
  if (!tools.any()) return prompt;
  Result<CallGrammar> grammar = call_grammar(tools, api.tokenizer());
  if (!grammar.ok()) {
    fields.fail("tools", "cannot be followed: " + grammar.error().message);
    return prompt;
  }
  prompt.grammar = std::move(*grammar);
  return prompt;
}

void take_chat(Fields& fields, ChatPrompt prompt, TextRequest& request) {
  if (fields.error()) return;
  text::SamplerOptions& sampler = request.params.generate.sampler;
  request.prompts.push_back(std::move(prompt.tokens));
  request.params.style = prompt.style;
  if (prompt.grammar.grammar.empty()) return;
  if (!sampler.grammar.empty() || !sampler.json_schema.empty())
    return fields.fail("tools", "do not go with a grammar or a schema for the answer");
  sampler.grammar = std::move(prompt.grammar.grammar);
  sampler.grammar_from = prompt.grammar.from;
  request.params.shaped_by = "tools";
}

void read_response_format(Fields& fields, Params& params, const char* name, const Json* format) {
  if (format == nullptr) return;
  const auto fail = [&](const char* message) { fields.fail(name, message); };
  if (!format->is_object() || !format->contains("type") || !(*format)["type"].is_string())
    return fail("must be an object with a 'type'");
  const std::string type = (*format)["type"].get<std::string>();
  if (type == "text") return;
  if (type != "json_object" && type != "json_schema") return fail("must be text, json_object or json_schema");
  Json schema = {{"type", "object"}};
  if (type == "json_object" && format->contains("schema")) schema = (*format)["schema"];
  if (type == "json_schema") {
    const Json outer = format->value("json_schema", *format);
    if (!outer.is_object() || !outer.contains("schema")) return fail("needs a 'schema'");
    schema = outer["schema"];
  }
  if (!schema.is_object()) return fail("needs a schema that is an object");
  if (!params.generate.sampler.grammar.empty() || !params.generate.sampler.json_schema.empty())
    return fail("does not go with another grammar or schema");
  params.generate.sampler.json_schema = dump(schema);
  params.shaped_by = name;
}

}  // namespace ei::server
