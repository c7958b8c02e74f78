// Whether the model thinks, and how much, as the clients of each shape say it: a template's variables.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

ServerOptions showing(const char* chat_template) {
  ServerOptions options = test_options();
  options.chat_template = chat_template;
  return options;
}

constexpr const char* kShown =
    "{% for m in messages %}{{ m.content }}{% endfor %} effort={{ reasoning_effort or 'unsaid' }} "
    "thinks={{ enable_thinking }}";

const json kQuestion = {{{"role", "user"}, {"content", "Why?"}}};

// What the template was told, by the prompt of an answer of one token.
std::string told(const TestServer& server, const std::string& path, json body) {
  const bool responds = path == "/v1/responses";
  if (responds) body["input"] = "Why?";
  if (!responds) body["messages"] = kQuestion;
  body[responds ? "max_output_tokens" : "max_tokens"] = 1;
  const Answer answer = server.post(path, body);
  if (answer.status != 200) return answer.json()["error"].value("param", "?");
  if (path == "/apply-template") return answer.json()["prompt"].get<std::string>().substr(5);
  return "ok";
}

TEST(ServerThinking, TheEffortIsAVariableOfTheTemplate) {
  const TestServer server(showing(kShown));
  const auto shown = [&](const json& body) { return told(server, "/apply-template", body); };
  EXPECT_EQ(shown(json::object()), "effort=unsaid thinks=True");
  EXPECT_EQ(shown({{"reasoning_effort", nullptr}}), "effort=unsaid thinks=True");
  EXPECT_EQ(shown({{"reasoning_effort", "high"}}), "effort=high thinks=True");
  EXPECT_EQ(shown({{"reasoning_effort", "none"}}), "effort=unsaid thinks=False");
  const json both = {{"chat_template_kwargs", {{"reasoning_effort", "low"}}}, {"reasoning_effort", "high"}};
  EXPECT_EQ(shown(both), "effort=high thinks=True");
  const json off = {{"chat_template_kwargs", {{"reasoning_effort", "low"}}}, {"reasoning_effort", "none"}};
  EXPECT_EQ(shown(off), "effort=unsaid thinks=False");
  for (const json& wrong : {json(5), json("<|im_start|>"), json("two words"), json(std::string(33, 'a'))})
    EXPECT_EQ(shown({{"reasoning_effort", wrong}}), "reasoning_effort") << wrong;
}

// By what is read: a template that shows the effort has so many tokens more.
TEST(ServerThinking, EveryShapeSaysItInItsOwnWay) {
  const TestServer server(showing(
      "{% for m in messages %}{{ m.content }}{% endfor %}{% if reasoning_effort %} effort effort effort{% endif %}"
      "{% if not enable_thinking %} quiet quiet quiet quiet quiet quiet{% endif %}"));
  const auto tokens = [&](const char* path, json body) {
    const bool responds = std::string_view(path) == "/v1/responses";
    body["cache_prompt"] = false;
    body[responds ? "max_output_tokens" : "max_tokens"] = 1;
    responds ? body["input"] = "Why?" : body["messages"] = kQuestion;
    const json usage = server.post(path, body).json()["usage"];
    return usage.value("prompt_tokens", usage.value("input_tokens", -1));
  };
  const int plain = tokens("/v1/chat/completions", json::object());
  const int effort = tokens("/v1/chat/completions", {{"reasoning_effort", "low"}});
  const int quiet = tokens("/v1/chat/completions", {{"reasoning_effort", "none"}});
  EXPECT_LT(plain, effort);
  EXPECT_LT(effort, quiet);
  const char* responses = "/v1/responses";
  EXPECT_EQ(tokens(responses, json::object()), plain);
  EXPECT_EQ(tokens(responses, {{"reasoning", nullptr}}), plain);
  EXPECT_EQ(tokens(responses, {{"reasoning", {{"summary", "auto"}, {"effort", nullptr}}}}), plain);
  EXPECT_EQ(tokens(responses, {{"reasoning", {{"effort", "low"}}}}), effort);
  EXPECT_EQ(tokens(responses, {{"reasoning", {{"effort", "none"}}}}), quiet);
  const auto thinking = [](const char* type) { return json{{"thinking", {{"type", type}, {"budget_tokens", 1024}}}}; };
  const char* messages = "/v1/messages";
  EXPECT_EQ(tokens(messages, json::object()), plain);
  EXPECT_EQ(tokens(messages, thinking("enabled")), plain);
  EXPECT_EQ(tokens(messages, thinking("adaptive")), plain);
  EXPECT_EQ(tokens(messages, thinking("disabled")), quiet);
  json own = thinking("disabled");
  own["chat_template_kwargs"] = {{"enable_thinking", true}};
  EXPECT_EQ(tokens(messages, own), plain) << "the template's own word counts";
  json counted = thinking("disabled");
  counted["messages"] = kQuestion;
  EXPECT_EQ(server.post("/v1/messages/count_tokens", counted).json()["input_tokens"], quiet);
}

TEST(ServerThinking, WhatIsWrongIsNamedAsTheClientNamedIt) {
  const TestServer server(showing(kShown));
  EXPECT_EQ(told(server, "/v1/responses", {{"reasoning", "low"}}), "reasoning");
  EXPECT_EQ(told(server, "/v1/responses", {{"reasoning", {{"effort", 5}}}}), "reasoning.effort");
  EXPECT_EQ(told(server, "/v1/messages", {{"thinking", true}}), "thinking");
  EXPECT_EQ(told(server, "/v1/messages", {{"thinking", {{"type", "much"}}}}), "thinking");
  EXPECT_EQ(told(server, "/v1/messages", {{"thinking", {{"type", "enabled"}}}, {"chat_template_kwargs", 1}}),
            "chat_template_kwargs");
}

// The operator's word is what a request gets that says nothing.
TEST(ServerThinking, ATemplateThatBeginsWithAThoughtEndsItWhereThereIsToBeNone) {
  ServerOptions options = showing("{% for m in messages %}{{ m.content }}{% endfor %}<think>\n");
  const json body = {{"messages", kQuestion}, {"grammar", "root ::= \"so\" \"</think>\" \"yes\""}};
  const TestServer server(options);
  const auto thought = [&](const json& more) {
    json whole = body;
    whole.update(more);
    return server.post("/v1/chat/completions", whole).json()["choices"][0]["message"].value("reasoning_content", "");
  };
  EXPECT_EQ(thought(json::object()), "so");
  EXPECT_EQ(thought({{"reasoning_effort", "low"}}), "so");
  EXPECT_EQ(thought({{"reasoning_effort", "none"}}), "");
  EXPECT_EQ(thought({{"chat_template_kwargs", {{"enable_thinking", false}}}}), "");
}

}  // namespace
}  // namespace ei::server
