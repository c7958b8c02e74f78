// What clients do wrong, and what is refused.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

TEST(ServerMistakes, AreAnsweredWithTheFieldNamed) {
  const TestServer server;
  const json good = {{"prompt", "a"}, {"n_predict", 1}};
  const std::vector<std::pair<const char*, json>> bad = {{"temperature", "hot"},
                                                         {"temperature", 1e300},
                                                         {"top_p", 2},
                                                         {"top_p", -1},
                                                         {"top_k", 1.5},
                                                         {"seed", 1e30},
                                                         {"n", 0},
                                                         {"n", 1000000},
                                                         {"n_cmpl", 0},
                                                         {"n_indent", 2},
                                                         {"adaptive_target", 0.5},
                                                         {"min_keep", -1},
                                                         {"stop", {1, 2}},
                                                         {"stream", "yes"},
                                                         {"stream_options", true},
                                                         {"n_predict", -2},
                                                         {"id_slot", 99},
                                                         {"logit_bias", "x"},
                                                         {"logit_bias", {{1}}},
                                                         {"prompt", {{"x", 1}}},
                                                         {"prompt", {-1}},
                                                         {"prompt", {1000000000}},
                                                         {"prompt", json::array()},
                                                         {"method", "magic"},
                                                         {"repeat_penalty", 0},
                                                         {"json_schema", "text"},
                                                         {"n_probs", -1},
                                                         {"min_p", json::array()},
                                                         {"repeat_last_n", 1000000000},
                                                         {"timeout", -1},
                                                         {"samplers", {"magic"}},
                                                         {"mirostat", 3},
                                                         {"xtc_probability", 2},
                                                         {"dry_sequence_breakers", {1}},
                                                         {"prompt", nullptr}};
  for (const auto& [name, value] : bad) {
    json body = good;
    body[name] = value;
    const Answer answer = server.post("/completion", body);
    EXPECT_EQ(answer.status, 400) << name << " " << value;
    EXPECT_EQ(answer.json()["error"]["param"], name) << answer.body;
    EXPECT_EQ(answer.json()["error"]["type"], "invalid_request_error") << answer.body;
  }
  json tolerated = good;
  tolerated.update({{"n_indent", 0}, {"adaptive_target", -1.0}, {"adaptive_decay", 0.9}});  // off
  tolerated["no_stop_trim"] = {{"anything", 1}};
  EXPECT_EQ(server.post("/completion", tolerated).status, 200);
}

// Of OpenAI's completions; llama-server has neither.
TEST(ServerMistakes, CompletionsHaveNoSuffixAndNoBestOfMoreThanAreShown) {
  const TestServer server;
  const auto wrong = [&](const json& more) {
    json body = {{"prompt", "a"}, {"max_tokens", 1}};
    body.update(more);
    const Answer answer = server.post("/v1/completions", body);
    return answer.status == 200 ? std::string() : answer.json()["error"]["param"].get<std::string>();
  };
  EXPECT_EQ(wrong({{"suffix", "b"}}), "suffix");
  EXPECT_EQ(wrong({{"suffix", 1}}), "suffix");
  EXPECT_EQ(wrong({{"suffix", ""}}), "");
  EXPECT_EQ(wrong({{"suffix", nullptr}, {"best_of", nullptr}}), "");
  EXPECT_EQ(wrong({{"best_of", 2}}), "best_of");
  EXPECT_EQ(wrong({{"best_of", 1}}), "");
  EXPECT_EQ(wrong({{"best_of", 2}, {"n", 2}}), "");
}

// Every field that the server says it has, and those that are no settings.
TEST(ServerMistakes, NoValueOfAnyFieldBreaksAnything) {
  const TestServer server;
  std::vector<std::string> names = {"prompt",          "n",         "id_slot",      "timeout",  "priority",
                                    "cache_prompt",    "echo",      "method",       "logprobs", "top_logprobs",
                                    "response_fields", "kv_budget", "density",      "suffix",   "user",
                                    "best_of",         "threshold", "return_heads", "model",    "messages"};
  const json settings = server.get("/props").json()["default_generation_settings"]["params"];
  for (const auto& [name, value] : settings.items()) names.push_back(name);
  ASSERT_GT(names.size(), 45u);
  const std::string values[] = {"-1e308", "1e308", "-9223372036854775808", "18446744073709551615", "\"NaN\"",
                                "[[]]",   "{}",    "[1e308, -1]"};
  for (const std::string& name : names) {
    for (const std::string& value : values) {
      json body = {{"prompt", "a"}, {"n_predict", 1}};
      body[name] = json::parse(value);
      const Answer answer = server.post(name == "echo" ? "/v1/completions" : "/completion", body);
      const json error = answer.json().value("error", json::object());
      const bool named = error.value("param", json()).is_string() || error.value("message", "").starts_with(name);
      const bool clean = answer.status == 200 || (answer.status == 400 && named);
      EXPECT_TRUE(clean) << name << " " << value << ": " << answer.status << " " << answer.body.substr(0, 200);
    }
  }
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(ServerMistakes, OfJsonAndHttpAreRefused) {
  const TestServer server;
  const auto raw = [&](const std::string& bytes) {
    Client client(server.port());
    client.send(bytes);
    return client.read();
  };
  const auto body_status = [&](const std::string& body) {
    return raw(request_text("POST", "/completion", body)).status;
  };
  EXPECT_EQ(body_status("{"), 400);
  EXPECT_EQ(body_status("[1]"), 400);
  EXPECT_EQ(body_status("{\"prompt\": \"\xff\"}"), 400);
  EXPECT_EQ(body_status("{\"prompt\":" + std::string(3000, '[') + std::string(3000, ']') + "}"), 400);
  const auto nested = [&](size_t levels) {
    return "{\"prompt\": \"[[\", \"n_predict\": 1, \"x\": " + std::string(levels - 1, '[') +
           std::string(levels - 1, ']') + "}";
  };
  EXPECT_EQ(body_status(nested(64)), 200);
  EXPECT_EQ(body_status(nested(65)), 400);
  EXPECT_EQ(raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status, 400);
  const auto header = [&](size_t bytes) { return "X: " + std::string(bytes, 'x') + "\r\n"; };
  EXPECT_EQ(raw("GET /health HTTP/1.1\r\n" + header(8000) + "\r\n").status, 200);
  EXPECT_EQ(raw("GET /health HTTP/1.1\r\n" + header(9000) + "\r\n").status, 431);
  EXPECT_EQ(raw("GET /health HTTP/1.1\r\n" + header(2000000) + "\r\n").status, 431);
  EXPECT_EQ(raw("GET /" + std::string(9000, 'x') + " HTTP/1.1\r\n\r\n").status, 431);
  std::string large = "GET /health HTTP/1.1\r\n";
  for (int i = 0; i < 90; ++i) large += "X-" + std::to_string(i) + header(8000);
  EXPECT_EQ(raw(large + "\r\n").status, 200) << "8 KiB for each of a hundred";
  std::string many = "GET /health HTTP/1.1\r\n";
  for (int i = 0; i < 200; ++i) many += "X-" + std::to_string(i) + ": 1\r\n";
  EXPECT_EQ(raw(many + "\r\n").status, 431);
  EXPECT_EQ(raw("POST /completion HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n").status, 413);
  // Bodies are taken as they come: nothing is inflated.
  EXPECT_EQ(raw("POST /completion HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n"
                "\x1f\x8b\x08\x01\x01\x01\x01\x01\x01\x03")
                .status,
            400);
  EXPECT_EQ(body_status("{\"prompt\": \"a\", \"temperature\": NaN}"), 400);
  EXPECT_EQ(server.get("/nothing").status, 404);
  EXPECT_EQ(server.get("/completion").status, 405);
  EXPECT_EQ(server.get("/completion").headers.at("allow"), "POST");
  EXPECT_EQ(server.post("/slots", json::object()).headers.at("allow"), "GET, HEAD");
  EXPECT_EQ(server.get("/health").status, 200);
}

// A text inside of the body may hold JSON of its own.
TEST(ServerMistakes, ArgumentsNestedDeeplyAreATextLikeAnyOther) {
  const TestServer server;
  const std::string deep = "{\"a\":" + std::string(200000, '[') + std::string(200000, ']') + "}";
  const json call = {{"id", "c"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", deep}}}};
  const json body = {{"messages",
                      {{{"role", "user"}, {"content", "x"}},
                       {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}},
                       {{"role", "tool"}, {"tool_call_id", "c"}, {"content", "y"}}}},
                     {"max_tokens", 1}};
  const int status = server.post("/v1/chat/completions", body).status;
  EXPECT_TRUE(status == 200 || status == 400) << status;
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(ServerMistakes, AnEndlessChunkedBodyEndsAtTheLimit) {
  ServerOptions options = test_options();
  options.http.body_bytes = 10000;
  const TestServer server(options);
  Client client(server.port());
  client.send("POST /completion HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20; ++i) client.send("400\r\n" + std::string(1024, ' ') + "\r\n");
  EXPECT_EQ(client.read().status, 413);
}

TEST(ServerMistakes, ASlowRequestIsGivenUp) {
  ServerOptions options = test_options();
  options.http.read_s = 0.2;
  options.http.idle_s = 0.2;
  const TestServer server(options);
  Client client(server.port());
  client.send("POST /completion HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(client.read().status, 0);
}

// Byte by byte, so that it is never silent for long: the headers have a time of their own, on a new connection and on
// one that is kept for long.
TEST(ServerMistakes, HeadersThatTrickleInAreGivenUp) {
  ServerOptions options = test_options();
  options.http.read_s = 0.3;
  options.http.idle_s = 600;
  const TestServer server(options);
  for (const bool kept : {false, true}) {
    Client client(server.port());
    if (kept) {
      client.send(request_text("GET", "/health", ""));
      EXPECT_EQ(client.read().status, 200);
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // longer than a header may take
      client.send(request_text("GET", "/health", ""));
      EXPECT_EQ(client.read().status, 200);
    }
    client.send("GET /health HTTP/1.1\r\nX: ");
    const double begun = now_s();
    while (!client.ended() && now_s() < begun + 60) {
      client.send("x");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_TRUE(client.ended()) << kept;
  }
}

TEST(ServerMistakes, APromptBeyondTheContextSaysByHowMuch) {
  ServerOptions options = test_options();
  options.scheduler.session.context = 64;
  const TestServer server(options);
  const json error = server.post("/completion", {{"prompt", long_text(100)}}).json()["error"];
  EXPECT_EQ(error["type"], "exceed_context_size_error");
  EXPECT_EQ(error["n_ctx"], 64);
  EXPECT_GE(error["n_prompt_tokens"], 64);
  const json full = server.post("/completion", {{"prompt", "a b c"}, {"ignore_eos", true}}).json();
  EXPECT_EQ(full["tokens_evaluated"].get<int>() + full["tokens_predicted"].get<int>(), 64);
  EXPECT_EQ(full["truncated"], true);
}

TEST(ServerMistakes, MoreAnswersThanARequestMayHaveAreRefusedBeforeAnythingRuns) {
  const TestServer server;
  json prompts = json::array();
  for (int i = 0; i < 65; ++i) prompts.push_back("a");
  for (const char* path : {"/completion", "/v1/completions"}) {
    const Answer answer = server.post(path, {{"prompt", prompts}, {"n", 2}, {"max_tokens", 1}});
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_EQ(answer.json()["error"]["param"], "n") << answer.body;
    EXPECT_NE(answer.body.find("128"), std::string::npos) << answer.body;
  }
  prompts.erase(0);
  const json most = server.post("/v1/completions", {{"prompt", prompts}, {"n", 2}, {"max_tokens", 1}}).json();
  EXPECT_EQ(most["choices"].size(), 128u) << most;
}

TEST(ServerMistakes, AreNamedAsTheClientNamedThem) {
  const TestServer server;
  const std::vector<std::pair<const char*, json>> bad = {
      {"input", 5},
      {"input", json::array({{{"role", "user"}, {"content", 5}}})},
      {"instructions", 5},
      {"max_output_tokens", "many"},
      {"previous_response_id", "resp_1"},
      {"background", true},
      {"text", 5},
      {"text.format", {{"format", 5}}},
      {"text.format", {{"format", {{"type", "xml"}}}}},
      {"text.format", {{"format", {{"type", "json_schema"}}}}},
      {"text.format", {{"format", {{"type", "json_schema"}, {"schema", {{"type", "hiccup"}}}}}}}};
  for (const auto& [name, value] : bad) {
    json body = {{"input", "x"}, {"max_output_tokens", 1}};
    body[name == std::string("text.format") ? "text" : name] = value;
    const Answer answer = server.post("/v1/responses", body);
    EXPECT_EQ(answer.status, 400) << name << " " << value;
    EXPECT_EQ(answer.json()["error"]["param"], name) << answer.body;
  }
  const json message = {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"max_tokens", 1}, {"stop_sequences", 5}};
  EXPECT_EQ(server.post("/v1/messages", message).json()["error"]["param"], "stop_sequences");
  json system = message;
  system["stop_sequences"] = nullptr;
  system["system"] = 5;
  EXPECT_EQ(server.post("/v1/messages", system).json()["error"]["param"], "system");
  EXPECT_EQ(server.post("/v1/messages/count_tokens", system).json()["error"]["param"], "system");
}

TEST(ServerMistakes, GrammarsThatCannotBeFollowedFailClosed) {
  const TestServer server;
  std::string deep = "root ::= ";
  for (int i = 0; i < 60000; ++i) deep += "(";
  for (const std::string& grammar : {std::string("root ::= (\"a"), std::string("x ::= \"a\""), deep}) {
    const Answer answer = server.post("/completion", {{"prompt", "a"}, {"n_predict", 2}, {"grammar", grammar}});
    EXPECT_EQ(answer.status, 400) << grammar.substr(0, 30);
    EXPECT_EQ(answer.json()["error"]["param"], "grammar") << answer.body.substr(0, 200);
  }
  const json chat = {{"messages", {{{"role", "user"}, {"content", "x"}}}},
                     {"response_format", {{"type", "json_object"}, {"schema", {{"type", "hiccup"}}}}}};
  const Answer refused = server.post("/v1/chat/completions", chat);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "response_format") << refused.body;
  const json tools = {{"messages", {{{"role", "user"}, {"content", "x"}}}},
                      {"tool_choice", "required"},
                      {"tools", {{{"name", "f"}, {"parameters", {{"type", "hiccup"}}}}}}};
  const Answer called = server.post("/v1/chat/completions", tools);
  EXPECT_EQ(called.status, 400);
  EXPECT_EQ(called.json()["error"]["param"], "tools") << called.body;
  for (const std::string& pattern :
       {std::string("^(a"), std::string("[z-a"), std::string(5000, '('), std::string("a{2")}) {
    const json schema = {{"type", "string"}, {"pattern", "^" + pattern + "$"}};
    const Answer answer = server.post("/completion", {{"prompt", "a"}, {"n_predict", 2}, {"json_schema", schema}});
    EXPECT_EQ(answer.status, 400) << pattern.substr(0, 30) << ": " << answer.body.substr(0, 200);
    EXPECT_EQ(answer.json()["error"]["param"], "json_schema") << answer.body.substr(0, 200);
  }
}

TEST(ServerMistakes, MessagesMustBeMessages) {
  const TestServer server;
  const std::vector<json> bad = {nullptr,
                                 "text",
                                 json::array(),
                                 {1},
                                 {json::object()},
                                 {{{"role", 1}}},
                                 {{{"role", "user"}, {"content", 5}}},
                                 {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}};
  for (const json& messages : bad) {
    const Answer answer = server.post("/v1/chat/completions", {{"messages", messages}});
    EXPECT_EQ(answer.status, 400) << messages;
    EXPECT_EQ(answer.json()["error"]["param"], "messages") << messages;
  }
}

TEST(ServerMistakes, AChatOfHiddenThoughtsAloneSaysNothing) {
  const TestServer server;
  const json hidden =
      json::parse(R"([{"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}])");
  for (const char* path : {"/v1/messages", "/v1/chat/completions", "/v1/messages/count_tokens", "/apply-template"}) {
    const Answer answer = server.post(path, {{"messages", hidden}, {"max_tokens", 1}});
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_EQ(answer.json()["error"]["param"], "messages") << path;
  }
  EXPECT_EQ(server.post("/v1/responses", {{"input", hidden}}).json()["error"]["param"], "input");
}

TEST(ServerMistakes, WithoutAKeyOnlyHealthAnswers) {
  ServerOptions options = test_options();
  options.keys = {"first", "second"};
  const TestServer server(options);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/v1/models").status, 401);
  EXPECT_EQ(server.get("/v1/models").json()["error"]["type"], "authentication_error");
  EXPECT_EQ(server.get("/v1/models", "Authorization: Bearer firs\r\n").status, 401);
  EXPECT_EQ(server.get("/v1/models", "Authorization: Bearer firstfirst\r\n").status, 401);
  EXPECT_EQ(server.get("/v1/models", "Authorization: Bearer \r\n").status, 401);
  EXPECT_EQ(server.get("/v1/models", "Authorization: Bearer second\r\n").status, 200);
  EXPECT_EQ(server.get("/v1/models", "X-Api-Key: first\r\n").status, 200);
  EXPECT_EQ(server.get("/v1/models", "Authorization: bearer second\r\n").status, 200);
  EXPECT_EQ(server.get("/v1/models", "Authorization: BEARER second\r\n").status, 200);
  EXPECT_EQ(server.get("/v1/models", "Authorization: Basic second\r\n").status, 401);
  EXPECT_EQ(server.get("/v1/models", "Authorization: bearer SECOND\r\n").status, 401);
  EXPECT_FALSE(server.get("/health", "Origin: http://elsewhere\r\n").headers.contains("access-control-allow-origin"));
}

TEST(ServerMistakes, TheAccessLogTellsOfEveryRequestAndNothingOfItsWords) {
  std::mutex mutex;
  std::vector<json> lines;
  {
    ServerOptions options = test_options();
    options.access_log = [&](const std::string& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(json::parse(line));
    };
    const TestServer server(options);
    const Answer answer =
        server.post("/completion?secret=1", {{"prompt", "my secret"}, {"n_predict", 1}}, "X-Request-Id: order-66\r\n");
    EXPECT_EQ(answer.headers.at("x-request-id"), "order-66");
    const Answer other = server.get("/nowhere", "X-Request-Id: two words\r\n");
    EXPECT_EQ(other.headers.at("x-request-id").size(), 16u) << "not fit for a log: ours instead";
    Client leaves(server.port());
    leaves.send(request_text("POST", "/completion",
                             json{{"prompt", long_text(3000)}, {"n_predict", 9}, {"stream", true}}.dump()));
    leaves.read_until("200 OK");
  }
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["id"], "order-66");
  EXPECT_EQ(lines[0]["path"], "/completion");
  EXPECT_EQ(lines[0]["status"], 200);
  EXPECT_GT(lines[0]["bytes"], 100);
  EXPECT_EQ(lines[1]["status"], 404);
  EXPECT_EQ(lines[2]["gone"], true);
  for (const json& line : lines) EXPECT_EQ(line.dump().find("secret"), std::string::npos);
}

}  // namespace
}  // namespace ei::server
