#include "text/jinja_render.h"

// Before the engine's headers: see there.
#include <jinja/lexer.h>
#include <jinja/parser.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/jinja_budget.h"
#include "text/jinja_guard.h"

namespace ei::text {
namespace {

constexpr size_t kMaxSourceBytes = size_t{256} << 10;
constexpr size_t kMaxBlockTokens = 4096;  // one {{ }} or {% %}
constexpr int kMaxBrackets = 64;
constexpr int kMaxBlocks = 100;  // nested {% if %}, {% for %}, ...; every elif counts

using jinja::token;

std::string last_error(const std::string& text) {
  // The engine's messages draw the source over several lines; what went wrong stands after the last "Error: ".
  const size_t last = text.rfind("Error: ");
  std::string line = last == std::string::npos ? text : text.substr(last + 7);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line = line.substr(0, 240);
  std::string complete = take_complete_utf8(line);
  return complete;
}

Error refuse(const std::string& why) {
  const std::string line = last_error(why);
  // What raise_exception() throws is the template's answer to the messages, not a mistake in it.
  const bool raised = line.starts_with("Jinja Exception: ");
  return make_error(raised ? ErrorKind::kUsage : ErrorKind::kModel, "chat template: %s", line.c_str());
}

// The engine's lexer takes line ends out one by one, which is slow for many.
std::string unix_lines(const std::string& source) {
  std::string unix;
  unix.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    unix += source[i] == '\r' ? '\n' : source[i];
  }
  return unix;
}

// The parser recurses with brackets, blocks and chains of operators, and so does everything after it.
void check_nesting(const std::vector<token>& tokens) {
  int brackets = 0;
  size_t block_tokens = 0;
  std::vector<int> blocks;  // per open block: itself and its elifs
  int depth = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const token::type type = tokens[i].t;
    const bool opens =
        type == token::open_paren || type == token::open_square_bracket || type == token::open_curly_bracket;
    const bool closes =
        type == token::close_paren || type == token::close_square_bracket || type == token::close_curly_bracket;
    brackets += opens ? 1 : closes ? -1 : 0;
    if (brackets > kMaxBrackets) throw TemplateRefused{"its brackets are nested too deeply"};
    const bool border = type == token::open_statement || type == token::open_expression || type == token::text;
    block_tokens = border ? 0 : block_tokens + 1;
    if (border) brackets = 0;
    if (block_tokens > kMaxBlockTokens) throw TemplateRefused{"one of its expressions is too long"};
    if (type != token::open_statement || i + 1 >= tokens.size()) continue;

    const std::string& name = tokens[i + 1].value;
    constexpr std::array<std::string_view, 5> kBlocks = {"if", "for", "macro", "call", "filter"};
    bool block = std::find(kBlocks.begin(), kBlocks.end(), name) != kBlocks.end();
    if (name == "set") {
      block = true;
      for (size_t j = i + 2; j < tokens.size() && tokens[j].t != token::close_statement; ++j) {
        if (tokens[j].t == token::equals) block = false;
      }
    }
    if (block) {
      blocks.push_back(1);
      ++depth;
    } else if (name == "elif" && !blocks.empty()) {
      ++blocks.back();
      ++depth;
    } else if (name.starts_with("end") && name != "endgeneration" && !blocks.empty()) {
      depth -= blocks.back();
      blocks.pop_back();
    }
    if (depth > kMaxBlocks) throw TemplateRefused{"its blocks are nested too deeply"};
  }
}

jinja::program parse_guarded(const std::string& source, JinjaBudget& budget) {
  if (source.size() > kMaxSourceBytes) {
    throw TemplateRefused{str_format("it is too long: %zu > %zu bytes", source.size(), kMaxSourceBytes)};
  }
  if (!valid_utf8(source)) throw TemplateRefused{"it is not valid UTF-8"};
  const jinja::lexer_result lexed = jinja::lexer().tokenize(unix_lines(source));
  check_nesting(lexed.tokens);
  jinja::program program = jinja::parse_from_tokens(lexed);
  guard_program(program, budget);
  return program;
}

// Roles are part of the template's language ('<|' + role + '|>'), but only the known ones: others are input.
bool is_known_role(std::string_view role) {
  constexpr std::array<std::string_view, 8> kRoles = {"system", "user",     "assistant", "tool",
                                                      "model",  "function", "developer", "ipython"};
  return std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
}

jinja::value text_value(const std::string& text, bool is_input) {
  auto value = jinja::mk_val<jinja::value_string>(text);
  if (is_input) value->mark_input();
  return value;
}

// Every text in it is marked as input. The depth is that of a parsed request, 64 levels at most.
// libllama makes an integer of 64 bits of every number, too, which a larger one is not.
constexpr double kLargestNumber = 0x1p62;

jinja::value json_value(const nlohmann::ordered_json& json, JinjaBudget& budget, int depth = 0) {
  budget.tick();
  if (depth > 64) throw TemplateRefused{"what it is given is nested too deeply"};
  if (json.is_string()) return text_value(json.get<std::string>(), /*is_input=*/true);
  if (json.is_boolean()) return jinja::mk_val<jinja::value_bool>(json.get<bool>());
  if (json.is_number_integer()) return jinja::mk_val<jinja::value_int>(json.get<int64_t>());
  if (json.is_number())
    return jinja::mk_val<jinja::value_float>(std::clamp(json.get<double>(), -kLargestNumber, kLargestNumber));
  if (json.is_array()) {
    auto list = jinja::mk_val<jinja::value_array>();
    for (const auto& item : json) list->push_back(json_value(item, budget, depth + 1));
    budget.keep(list);
    return list;
  }
  if (json.is_object()) {
    auto object = jinja::mk_val<jinja::value_object>();
    for (const auto& [key, item] : json.items()) object->insert(key, json_value(item, budget, depth + 1));
    budget.keep(object);
    return object;
  }
  return jinja::mk_val<jinja::value_none>();
}

void set_extras(jinja::context& context, const TemplateExtras& extras, JinjaBudget& budget) {
  if (!extras.variables.empty()) {
    const auto variables = nlohmann::ordered_json::parse(extras.variables);
    for (const auto& [name, value] : variables.items()) context.set_val(name, json_value(value, budget));
  }
  if (extras.tools.empty()) return;
  context.set_val("tools", json_value(nlohmann::ordered_json::parse(extras.tools), budget));
}

void set_variables(jinja::context& context, const JinjaInput& input, JinjaBudget& budget) {
  set_extras(context, input.extras, budget);  // first: what follows is not theirs to change
  auto messages = jinja::mk_val<jinja::value_array>();
  for (const Message& message : input.messages) {
    auto object = jinja::mk_val<jinja::value_object>();
    object->insert("role", text_value(message.role, !is_known_role(message.role)));
    object->insert("content", text_value(message.content, /*is_input=*/true));
    if (!message.more.empty()) {
      const auto more = nlohmann::ordered_json::parse(message.more);
      for (const auto& [name, value] : more.items()) object->insert(name, json_value(value, budget));
    }
    budget.keep(object);
    messages->push_back(object);
  }
  budget.keep(messages);
  context.set_val("messages", messages);
  context.set_val("bos_token", text_value(input.bos_text, /*is_input=*/false));
  context.set_val("eos_token", text_value(input.eos_text, /*is_input=*/false));
  context.set_val("add_generation_prompt", jinja::mk_val<jinja::value_bool>(input.add_generation_prompt));
}

std::vector<TextPart> run(const std::string& source, const JinjaInput& input, JinjaBudget& budget) {
  const jinja::program program = parse_guarded(source, budget);
  jinja::context context(source);
  set_variables(context, input, budget);
  const jinja::value printed = jinja::runtime(context).execute(program);
  const jinja::value_string text = jinja::runtime::gather_string_parts(printed);
  std::vector<TextPart> parts;
  for (const jinja::string_part& part : text->val_str.parts) {
    parts.push_back({part.val, part.is_input});
  }
  return parts;
}

}  // namespace

Status check_jinja(const std::string& source) {
  JinjaBudget budget(source.size(), 0);
  try {
    parse_guarded(source, budget);
    return {};
  } catch (const TemplateRefused& refused) {
    return refuse(refused.why);
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
}

Result<std::vector<TextPart>> render_jinja(const std::string& source, const JinjaInput& input) {
  size_t input_bytes = source.size();
  for (const Message& message : input.messages) {
    if (!valid_utf8(message.content) || !valid_utf8(message.role)) {
      return make_error(ErrorKind::kUsage, "a message is not valid UTF-8");
    }
    if (!valid_utf8(message.more)) return make_error(ErrorKind::kUsage, "a message is not valid UTF-8");
    input_bytes += message.content.size() + message.more.size();
  }
  input_bytes += input.extras.tools.size() + input.extras.variables.size();
  JinjaBudget budget(input_bytes, input.messages.size());
  try {
    return run(source, input, budget);
  } catch (const TemplateRefused& refused) {
    return refuse(refused.why);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorKind::kMemory, "out of memory in the chat template");
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
}

}  // namespace ei::text
