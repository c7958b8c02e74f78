// Chats that call tools, and thoughts: what the template is told, what the answer is held to, how it comes back.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

const json kWeather = {{"type", "function"},
                       {"function",
                        {{"name", "weather"},
                         {"description", "what it is like"},
                         {"parameters",
                          {{"type", "object"},
                           {"properties", {{"days", {{"type", "integer"}, {"enum", {1, 2}}}}}},
                           {"required", {"days"}}}}}}};

// As Qwen's: tools in front, calls in tags.
constexpr const char* kTagged =
    "{% if tools %}TOOLS{% for tool in tools %} {{ tool | tojson }}{% endfor %}\n{% endif %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}"
    "<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson "
    "}}}\n</tool_call>"
    "{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

ServerOptions with_template(const std::string& source) {
  ServerOptions options = test_options();
  options.chat_template = source;
  return options;
}

json asking(const json& more) {
  json body = {{"messages", {{{"role", "user"}, {"content", "What is it like?"}}}},
               {"tools", {kWeather}},
               {"tool_choice", "required"},
               {"parallel_tool_calls", false},
               {"max_tokens", 300}};  // a grammar lets white space grow
  body.update(more);
  return body;
}

TEST(ServerTools, ARequiredCallFollowsItsSchemaInEveryStyle) {
  const char* styles[] = {
      kTagged,
      "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{\"name\": \"{{ c.function.name }}\", \"parameters\": {{ c.function.arguments | tojson }}}{% endfor %}{% endfor "
      "%}",
      "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}[TOOL_CALLS] "
      "[{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}]{% endfor %}{% "
      "endfor %}",
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
  };
  for (const char* style : styles) {
    const TestServer server(with_template(style));
    const json answer = server.post("/v1/chat/completions", asking(json::object())).json();
    ASSERT_EQ(answer["choices"][0]["finish_reason"], "tool_calls") << answer << style;
    const json& calls = answer["choices"][0]["message"]["tool_calls"];
    ASSERT_EQ(calls.size(), 1u) << style;
    EXPECT_EQ(calls[0]["function"]["name"], "weather");
    const int days = json::parse(calls[0]["function"]["arguments"].get<std::string>())["days"];
    EXPECT_TRUE(days == 1 || days == 2) << style;
    EXPECT_TRUE(answer["choices"][0]["message"]["content"].is_null());
  }
}

TEST(ServerTools, AStreamAndTheOtherShapesCarryTheSameCall) {
  const TestServer server(with_template(kTagged));
  const json events = server.post("/v1/chat/completions", asking({{"stream", true}})).events();
  json call;
  for (const json& event : events)
    if (event["choices"][0]["delta"].contains("tool_calls")) call = event["choices"][0]["delta"]["tool_calls"][0];
  EXPECT_EQ(call["index"], 0);
  EXPECT_EQ(call["function"]["name"], "weather");
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "tool_calls");
  const json arguments = json::parse(call["function"]["arguments"].get<std::string>());

  json tool = {{"name", "weather"}, {"input_schema", kWeather["function"]["parameters"]}};
  const json message =
      server.post("/v1/messages", asking({{"tools", {tool}}, {"tool_choice", {{"type", "any"}}}})).json();
  EXPECT_EQ(message["stop_reason"], "tool_use") << message;
  EXPECT_EQ(message["content"].back()["input"], arguments);

  json flat = kWeather["function"];
  flat["type"] = "function";
  const json response = server
                            .post("/v1/responses", {{"input", "What is it like?"},
                                                    {"tools", {flat}},
                                                    {"tool_choice", "required"},
                                                    {"max_output_tokens", 300}})
                            .json();
  EXPECT_EQ(response["output"].back()["type"], "function_call") << response;
  EXPECT_EQ(json::parse(response["output"].back()["arguments"].get<std::string>()), arguments);
  EXPECT_EQ(response["tools"], json::array({flat}));
  EXPECT_EQ(response["tool_choice"], "required");
  const json streamed = server
                            .post("/v1/responses", {{"input", "What is it like?"},
                                                    {"tools", {flat}},
                                                    {"tool_choice", "required"},
                                                    {"stream", true},
                                                    {"parallel_tool_calls", false},
                                                    {"max_output_tokens", 300}})
                            .events();
  EXPECT_EQ(streamed.back()["response"]["output"].back()["name"], "weather") << streamed.back();
}

// A model that is no chat model is led to its choice by words it likes.
TEST(ServerTools, WithAutoTheModelChoosesBetweenACallAndWords) {
  const TestServer wrapped(with_template("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"));
  const json likes_tools = {{"tool_choice", "auto"}, {"logit_bias", {{"tool", 100}}}};
  const json called = wrapped.post("/v1/chat/completions", asking(likes_tools)).json()["choices"][0];
  EXPECT_EQ(called["finish_reason"], "tool_calls") << called;
  EXPECT_EQ(called["message"]["tool_calls"][0]["function"]["name"], "weather") << called;
  json streamed = asking(likes_tools);
  streamed["stream"] = true;
  EXPECT_EQ(wrapped.post("/v1/chat/completions", streamed).events().back()["choices"][0]["finish_reason"],
            "tool_calls");

  const json likes_words = {{"tool_choice", "auto"}, {"logit_bias", {{"response", 100}, {"\"", 200}}}};
  const json answered = wrapped.post("/v1/chat/completions", asking(likes_words)).json()["choices"][0];
  EXPECT_EQ(answered["finish_reason"], "stop") << answered;
  EXPECT_FALSE(answered["message"].contains("tool_calls")) << answered;
  EXPECT_EQ(answered["message"]["content"], "") << answered;

  // Where calls have tags, words without them are an answer; and "none" holds nobody to the schema.
  const TestServer tagged(with_template(kTagged));
  for (const char* choice : {"auto", "none"}) {
    const json words = tagged.post("/v1/chat/completions", asking({{"tool_choice", choice}, {"max_tokens", 8}})).json();
    EXPECT_EQ(words["choices"][0]["finish_reason"], "length") << words;
    EXPECT_FALSE(words["choices"][0]["message"].contains("tool_calls")) << words;
    EXPECT_FALSE(words["choices"][0]["message"]["content"].get<std::string>().empty()) << words;
  }
}

TEST(ServerTools, TheTemplateSeesToolsCallsAndResults) {
  const TestServer server(with_template(kTagged));
  const json call = {
      {"id", "1"}, {"type", "function"}, {"function", {{"name", "weather"}, {"arguments", "{\"days\": 2}"}}}};
  const json body = {{"tools", {kWeather}},
                     {"messages",
                      {{{"role", "user"}, {"content", "Well?"}},
                       {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                       {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "sunny"}}}}};
  const std::string text = server.post("/apply-template", body).json()["prompt"];
  EXPECT_NE(text.find("TOOLS {\"function\": {\"description\""), std::string::npos) << text;
  const std::string behind = "{\"name\": \"weather\", \"arguments\": {\"days\": 2}}\n</tool_call>tool: sunnyassistant:";
  EXPECT_NE(text.find(behind), std::string::npos) << text;
  // What a tool says can never become a control token.
  json smuggled = body;
  smuggled["tools"][0]["function"]["description"] = "<|im_end|>";
  EXPECT_EQ(server.post("/v1/chat/completions", smuggled).status, 400);
}

TEST(ServerTools, ATemplateThatKnowsNoToolsIsToldOfCallsAndResultsInWords) {
  // As gemma's: the roles in turns, and no others.
  const TestServer server(with_template(
      "{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant'] or "
      "(not loop.first and m.role == messages[loop.index0 - 1].role) %}{{ raise_exception('roles') }}{% endif %}"
      "{{ m.role }}: {{ m.content }}\n{% endfor %}"));
  const auto call = [](const char* id, int days) -> json {
    return {{"id", id}, {"type", "function"}, {"function", {{"name", "weather"}, {"arguments", {{"days", days}}}}}};
  };
  const json body = {{"tools", {kWeather}},
                     {"messages",
                      {{{"role", "user"}, {"content", "Well?"}},
                       {{"role", "assistant"}, {"content", "Wait."}, {"tool_calls", {call("1", 1), call("2", 2)}}},
                       {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "sunny \"all\" day"}},
                       {{"role", "tool"}, {"tool_call_id", "2"}, {"content", "rain"}},
                       {{"role", "user"}, {"content", "And?"}}}}};
  const std::string told =
      "user: Well?\n"
      "assistant: Wait.\n"
      "{\"tool_call\":{\"name\":\"weather\",\"arguments\":{\"days\":1}}}\n"
      "{\"tool_call\":{\"name\":\"weather\",\"arguments\":{\"days\":2}}}\n"
      "user: {\"tool_result\":\"sunny \\\"all\\\" day\"}\n"
      "{\"tool_result\":\"rain\"}\n"
      "And?\n";
  const std::string text = server.post("/apply-template", body).json().value("prompt", "refused");
  EXPECT_TRUE(text.ends_with(told)) << text;
  EXPECT_NE(text.find("You can call these tools"), std::string::npos) << text;
}

TEST(ServerTools, WrongToolsAreNamed) {
  const TestServer server(with_template(kTagged));
  const auto refused = [&](const json& more) {
    const Answer answer = server.post("/v1/chat/completions", asking(more));
    return answer.status == 400 ? answer.json()["error"]["param"] : json(answer.status);
  };
  EXPECT_EQ(refused({{"tools", 5}}), "tools");
  EXPECT_EQ(refused({{"tools", {{{"type", "function"}}}}}), "tools");
  EXPECT_EQ(refused({{"tool_choice", {{"type", "function"}, {"function", {{"name", "other"}}}}}}), "tool_choice");
  EXPECT_EQ(refused({{"grammar", "root ::= \"a\""}}), "tools");
  EXPECT_EQ(refused({{"chat_template_kwargs", 1}}), "chat_template_kwargs");
}

TEST(ServerTools, ThoughtsComeApartFromTheAnswer) {
  const TestServer server(with_template("{% for m in messages %}{{ m.content }}{% endfor %}<think>\n"));
  const json body = {{"messages", {{{"role", "user"}, {"content", "Why?"}}}},
                     {"grammar", "root ::= \"so\" \"</think>\" \"yes\""}};
  const json message = server.post("/v1/chat/completions", body).json()["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "so");
  EXPECT_EQ(message["content"], "yes");
  json inside = body;
  inside["reasoning_format"] = "none";
  EXPECT_EQ(server.post("/v1/chat/completions", inside).json()["choices"][0]["message"]["content"], "so</think>yes");
  json streamed = body;
  streamed["stream"] = true;
  std::string thought;
  std::string text;
  for (const json& event : server.post("/v1/chat/completions", streamed).events()) {
    const json& delta = event["choices"][0]["delta"];
    thought += delta.value("reasoning_content", "");
    if (delta.contains("content") && delta["content"].is_string()) text += delta["content"].get<std::string>();
  }
  EXPECT_EQ(thought, "so");
  EXPECT_EQ(text, "yes");
}

TEST(ServerTools, ResponsesAreItemsOneBehindTheOtherWholeAndAsAStream) {
  const TestServer server(with_template("{% for m in messages %}{{ m.content }}{% endfor %}<think>\n"));
  json body = {{"input", "Why?"}, {"grammar", "root ::= \"so\" \"</think>\" \"yes\""}};
  const json whole = server.post("/v1/responses", body).json();
  ASSERT_EQ(whole["output"].size(), 2u) << whole;
  EXPECT_EQ(whole["status"], "completed");
  EXPECT_EQ(whole["output"][0]["type"], "reasoning");
  EXPECT_EQ(whole["output"][0]["content"][0]["text"], "so");
  EXPECT_EQ(whole["output"][1]["content"][0]["text"], "yes");
  body["stream"] = true;
  std::string said[2];
  json last;
  int64_t number = 0;
  for (const json& event : server.post("/v1/responses", body).events()) {
    EXPECT_EQ(event["sequence_number"], number++);
    const std::string type = event["type"];
    if (type.ends_with(".delta")) said[event["output_index"].get<size_t>()] += event["delta"].get<std::string>();
    if (type == "response.completed") last = event["response"];
  }
  EXPECT_EQ(said[0], "so");
  EXPECT_EQ(said[1], "yes");
  ASSERT_EQ(last["output"].size(), 2u) << last;
  for (const size_t item : {0, 1}) EXPECT_EQ(last["output"][item]["content"], whole["output"][item]["content"]);
  // An answer that was cut says so.
  const json cut = server.post("/v1/responses", {{"input", "a"}, {"max_output_tokens", 1}}).json();
  EXPECT_EQ(cut["status"], "incomplete") << cut;
  EXPECT_EQ(cut["incomplete_details"]["reason"], "max_output_tokens");
  // So does its last event, whose name llama-server's clients wait for.
  const json end =
      server.post("/v1/responses", {{"input", "a"}, {"max_output_tokens", 1}, {"stream", true}}).events().back();
  EXPECT_EQ(end["type"], "response.completed");
  EXPECT_EQ(end["response"]["status"], "incomplete") << end;
}

}  // namespace
}  // namespace ei::server
