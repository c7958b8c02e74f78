// Values that nobody expects, in every place of every route's requests: each is answered rightly or refused cleanly.
#include <gtest/gtest.h>

#include "server/test_server.h"
#include "support/temp_folder.h"

namespace ei::server {
namespace {

using nlohmann::json;

// Tools in front, calls in tags.
constexpr const char* kTagged =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: {{ m.reasoning_content }}"
    "{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}\n{% endfor %}";

// Answers end there at the latest.
ServerOptions small_context(int64_t context, const std::string& chat_template = {}) {
  ServerOptions options = test_options();
  options.scheduler.session.context = context;
  if (!chat_template.empty()) options.chat_template = chat_template;
  return options;
}

// An answer, or one of OpenAI's errors that names the field (`named`) and is the client's own fault.
std::string what_is_wrong(const Answer& answer, bool named) {
  const std::string shown = std::to_string(answer.status) + " " + answer.body.substr(0, 300);
  if (answer.status == 200) {
    if (answer.body.find("\"error\":{") != std::string::npos) return shown;
    const bool streamed = answer.headers.at("content-type").starts_with("text/event-stream");
    return streamed ? (answer.events().empty() ? shown : "") : (answer.json().is_null() ? shown : "");
  }
  const json body = answer.json();
  if (answer.status < 400 || answer.status > 499 || !body.is_object() || !body.contains("error")) return shown;
  const json& error = body["error"];
  const bool whole = error.value("code", json()) == answer.status && error.value("message", json()).is_string() &&
                     error.value("type", json()).is_string() && error.contains("param");
  if (!whole || error["message"] == "") return shown;
  return named && !error["param"].is_string() ? shown : "";
}

const json& odd_values() {
  static const json values = json::parse(R"([-1e308, 1e308, 0.5, -9223372036854775808, 18446744073709551615, "NaN", "",
    "<|im_end|>", [], [[]], {}, [1e308, -1], null, true])");
  return values;
}

void find_places(const json& value, const json::json_pointer& at, std::vector<json::json_pointer>& places) {
  if (!at.empty()) places.push_back(at);
  if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i) find_places(value[i], at / i, places);
  if (value.is_object())
    for (const auto& [key, member] : value.items()) find_places(member, at / key, places);
}

// Every place of the request, from its fields down to the last number in a list, in turn holds every odd value, or one
// of so many.
void walk(const TestServer& server, const std::string& path, const std::string& text, size_t one_of = 1) {
#ifdef EI_SANITIZED
  one_of = 11;  // all of them would take a quarter of an hour
#endif
  const json good = json::parse(text);
  const Answer before = server.post(path, good);
  ASSERT_EQ(before.status, 200) << path << " " << before.body;
  std::vector<json::json_pointer> places;
  find_places(good, json::json_pointer(), places);
  size_t turn = 0;
  for (const json::json_pointer& place : places) {
    for (const json& value : odd_values()) {
      if (++turn % one_of != 0) continue;
      json body = good;
      if (body.contains("stream")) body["stream"] = turn / one_of % 3 == 0;
      body[place] = value;
      EXPECT_EQ(what_is_wrong(server.post(path, body), /*named=*/true), "") << path << " " << place << " " << value;
    }
  }
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.post(path, good).status, 200) << path;
}

constexpr const char* kChat = R"({
  "messages": [{"role": "system", "content": "a"},
    {"role": "user", "content": [{"type": "text", "text": "b"}], "name": "n"},
    {"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": [
      {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "c"}],
  "tools": [{"type": "function", "function": {"name": "f", "description": "d", "strict": true, "parameters":
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}],
  "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false,
  "stream": false, "stream_options": {"include_usage": true}, "reasoning_format": "auto",
  "chat_template_kwargs": {"enable_thinking": false}, "add_generation_prompt": true, "continue_final_message": false,
  "max_completion_tokens": 1, "logprobs": true, "top_logprobs": 1, "logit_bias": {"5": 1}, "n": 1, "stop": ["x"],
  "reasoning_effort": "low", "return_progress": true, "timings_per_token": true})";

constexpr const char* kShapedChat = R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1,
  "response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": true, "schema": {"type": "object",
    "properties": {"k": {"type": "integer", "minimum": 0, "maximum": 9}, "t": {"type": "string", "pattern": "^a$"},
      "w": {"type": "string", "minLength": 0, "maxLength": 3}, "e": {"enum": [1, "x"]}, "c": {"const": 1},
      "l": {"type": "array", "items": {"$ref": "#/$defs/b"}, "minItems": 0, "maxItems": 2},
      "o": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]}},
    "required": ["k"], "additionalProperties": false, "$defs": {"b": {"type": "boolean"}}}}}})";

constexpr const char* kMessages = R"({"system": [{"type": "text", "text": "s"}], "max_tokens": 1,
  "messages": [{"role": "user", "content": "a"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": ""},
      {"type": "text", "text": "w"}, {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]},
    {"role": "user", "content": [
      {"type": "tool_result", "tool_use_id": "1", "is_error": false, "content": [{"type": "text", "text": "r"}]}]}],
  "thinking": {"type": "enabled", "budget_tokens": 1024}, "metadata": {"user_id": "u"}, "stop_sequences": ["x"],
  "tools": [{"name": "f", "description": "d", "input_schema":
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}],
  "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
  "temperature": 0, "top_k": 1, "top_p": 1, "stream": false})";

constexpr const char* kResponses = R"({"instructions": "i", "max_output_tokens": 1,
  "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
    {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "o"}],
  "tools": [{"type": "function", "name": "f", "description": "d", "parameters":
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}],
  "tool_choice": "auto", "parallel_tool_calls": true, "reasoning": {"effort": "low"}, "text": {"verbosity": "low"},
  "metadata": {"m": "m"}, "background": false, "store": false, "truncation": "disabled", "temperature": 0, "top_p": 1,
  "stream": false})";

TEST(ServerFields, OfChatsMayHoldAnything) {
  const TestServer server(small_context(512, kTagged));
  walk(server, "/v1/chat/completions", kChat);
  walk(server, "/v1/chat/completions/input_tokens", kChat, 5);
  walk(server, "/apply-template", kChat, 5);
  const TestServer in_words(small_context(512));
  walk(in_words, "/v1/chat/completions", kChat, 5);
}

TEST(ServerFields, OfSchemasMayHoldAnything) {
  const TestServer server(small_context(64));
  walk(server, "/v1/chat/completions", kShapedChat);
  json response = {{"input", "a"}, {"max_output_tokens", 1}};
  response["text"]["format"] = json::parse(kShapedChat)["response_format"]["json_schema"];
  response["text"]["format"]["type"] = "json_schema";
  walk(server, "/v1/responses", response.dump(), 5);
}

TEST(ServerFields, OfMessagesAndResponsesMayHoldAnything) {
  const TestServer server(small_context(512, kTagged));
  walk(server, "/v1/messages", kMessages, 3);
  walk(server, "/v1/messages/count_tokens", kMessages, 5);
  walk(server, "/v1/responses", kResponses, 3);
  const TestServer in_words(small_context(512));
  walk(in_words, "/v1/messages", kMessages, 5);
  walk(in_words, "/v1/responses", kResponses, 5);
}

TEST(ServerFields, OfTextsAndTokensMayHoldAnything) {
  const TestServer server(small_context(64));
  walk(server, "/v1/completions", R"({"prompt": [["a", 72], {"prompt_string": "b"}, {"prompt_parts": ["c", "d"]}],
    "max_tokens": 1, "echo": false, "logprobs": 1, "suffix": "", "best_of": 1, "stream": false})");
  walk(server, "/tokenize", R"({"content": "a", "add_special": true, "parse_special": true, "with_pieces": true})");
  walk(server, "/tokenize", R"({"prompt": "a", "add_special_tokens": true, "return_token_strs": true})");
  walk(server, "/detokenize", R"({"tokens": [72, 101]})");
  const std::string id = server.post("/texts", "a text").json()["id"];
  const json part = {{"text_id", id}};
  walk(server, "/apply-template", json{{"messages", {{{"role", "user"}, {"content", {part}}}}}}.dump());
}

TEST(ServerFields, OfSlotsMayHoldAnything) {
  kv::TempFolder folder;
  ServerOptions options = small_context(64);
  options.slot_save_path = folder.file("");
  const TestServer server(options);
  EXPECT_EQ(server.post("/completion", {{"prompt", long_text(50)}, {"n_predict", 1}, {"id_slot", 0}}).status, 200);
  walk(server, "/slots/0?action=save", R"({"filename": "a"})");
  walk(server, "/slots/0?action=restore", R"({"filename": "a"})");
  const json body = {{"filename", "a"}};
  for (const char* slot :
       {"-1", "4", "18446744073709551616", "-9223372036854775808", "1e0", "0x0", "NaN", "", "0/1", "%30"})
    EXPECT_EQ(what_is_wrong(server.post(std::string("/slots/") + slot + "?action=save", body), true), "") << slot;
  for (const char* action :
       {"", "?", "?action", "?action=", "?action=NaN", "?action=save%00", "?action=save=1", "?&&&=="})
    EXPECT_EQ(server.post(std::string("/slots/0") + action, body).json()["error"]["param"], "action") << action;
  for (const char* name : {"../a", "/etc/passwd", ".", "..", "a/b", "a\\b", "a\nb"})
    EXPECT_EQ(server.post("/slots/0?action=save", {{"filename", name}}).status, 400) << name;
  EXPECT_EQ(server.post("/slots/0?action=save", {{"filename", std::string(201, 'a')}}).status, 400);
  EXPECT_EQ(what_is_wrong(server.post("/slots/0?action=restore", {{"filename", "nowhere"}}), true), "");
  EXPECT_EQ(server.get("/health").status, 200);
}

// Not an object, or no JSON at all; and at /texts, where everything that is UTF-8 is a text.
TEST(ServerFields, BodiesAreObjectsOrRefused) {
  const TestServer server(small_context(64));
  const std::string null_byte("\0", 1);
  const std::vector<std::string> bodies = {"",
                                           "[]",
                                           "5",
                                           "\"x\"",
                                           "null",
                                           "{\"a\"",
                                           "NaN",
                                           "\xff",
                                           "{}{}",
                                           null_byte,
                                           "{\"messages\": NaN}",
                                           "{\"a\": 1e999}"};
  for (const char* path :
       {"/completion", "/v1/completions", "/v1/chat/completions", "/v1/chat/completions/input_tokens", "/v1/messages",
        "/v1/messages/count_tokens", "/v1/responses", "/tokenize", "/detokenize", "/apply-template"}) {
    for (const std::string& body : bodies) {
      Client client(server.port());
      client.send(request_text("POST", path, body, body.empty() ? "Content-Length: 0\r\n" : ""));
      const Answer answer = client.read();
      EXPECT_EQ(answer.status, 400) << path << " " << body;
      EXPECT_EQ(what_is_wrong(answer, /*named=*/false), "") << path << " " << body;
    }
  }
  for (const std::string& body : bodies) {
    Client client(server.port());
    client.send(request_text("POST", "/texts", body, body.empty() ? "Content-Length: 0\r\n" : ""));
    const Answer answer = client.read();
    EXPECT_EQ(answer.status, body.empty() || body == "\xff" ? 400 : 200) << body;
    EXPECT_EQ(what_is_wrong(answer, /*named=*/false), "") << body;
  }
  EXPECT_EQ(server.get("/health").status, 200);
}

// A list of members is walked for each of them: an object may have many, but not so many that this takes long.
TEST(ServerFields, AnObjectOfVeryManyMembersIsRefusedAtOnce) {
  const TestServer server(small_context(64, kTagged));
  const auto with_members = [](int count) {
    std::string text = "{\"content\": \"a\", \"more\": {";
    for (int i = 0; i < count; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
    return text + "}}";
  };
  const auto answer = [&](const std::string& body) {
    Client client(server.port());
    client.send(request_text("POST", "/tokenize", body));
    return client.read();
  };
  EXPECT_EQ(answer(with_members(10000)).status, 200);
  const Answer refused = answer(with_members(1000000));  // walks without end
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("members"), std::string::npos) << refused.body;
  // Within a text it is no JSON to us.
  for (const int members : {10, 20000}) {
    const json call = {{"function", {{"name", "f"}, {"arguments", with_members(members)}}}};
    const json chat = {{"messages", {{{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}}}},
                       {"add_generation_prompt", false}};
    const std::string prompt = server.post("/apply-template", chat).json()["prompt"];
    const bool parsed = prompt.find("\"arguments\": {\"content\"") != std::string::npos;
    EXPECT_EQ(parsed, members == 10) << prompt.substr(0, 100);
  }
}

}  // namespace
}  // namespace ei::server
