// What a request may ask for many times over: likely tokens for every token, copies for every answer, pieces of a text.
#include <gtest/gtest.h>

#include "server/test_server.h"
#include "support/embedded_engine.h"

namespace ei::server {
namespace {

using nlohmann::json;

int vocabulary() { return embedded_engine().tokenizer().vocab_size(); }

const json kOneMessage = {{{"role", "user"}, {"content", "a"}}};

// `top_logprobs` of OpenAI's completions is an object: with every token of the vocabulary in it one request would hold
// up all others.
TEST(ServerAmounts, OpenAIsPathsGiveAsManyLikelyTokensAsLogprobsMayAskFor) {
  const TestServer server;
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    json body = {{"prompt", "a"}, {"messages", kOneMessage}, {"max_tokens", 1}};
    for (const json& logprobs : {json(nullptr), json(false)}) {
      body["logprobs"] = logprobs;
      body["n_probs"] = vocabulary();
      const Answer answer = server.post(path, body);
      EXPECT_EQ(answer.status, 400) << path;
      EXPECT_EQ(answer.json()["error"]["param"], "n_probs") << answer.body.substr(0, 300);
      body["n_probs"] = 100;
      EXPECT_EQ(server.post(path, body).status, 200) << path;
      body["n_probs"] = 3;
      const json likely = server.post(path, body).json()["choices"][0]["logprobs"]["content"][0]["top_logprobs"];
      EXPECT_EQ(likely.size(), 3u) << path;
    }
  }
  for (const char* path : {"/v1/messages", "/v1/responses"}) {
    const json body = {{"messages", kOneMessage}, {"input", "a"}, {"max_tokens", 1}, {"n_probs", vocabulary()}};
    EXPECT_EQ(server.post(path, body).status, 200) << path << " has no place for them";
  }
}

TEST(ServerAmounts, AllLikelyTokensOfARequestTogetherHaveABound) {
  ServerOptions options = test_options();
  const TestServer unlimited(options);
  const json whole =
      unlimited.post("/completion", {{"prompt", "a"}, {"n_predict", 1}, {"n_probs", vocabulary()}}).json();
  EXPECT_EQ(whole["completion_probabilities"][0]["top_logprobs"].size(), static_cast<size_t>(vocabulary()));
  json body = {{"prompt", "a"}, {"n_predict", 100000}, {"n_probs", vocabulary()}};
  EXPECT_EQ(unlimited.post("/completion", body).json()["error"]["param"], "n_probs");

  options.limits.most_probabilities = 100;
  const TestServer server(options);
  const auto refused_by = [&](const char* path, const json& request) {
    const Answer answer = server.post(path, request);
    return answer.status == 400 ? answer.json()["error"]["param"] : json(answer.status);
  };
  body = {{"prompt", "a"}, {"n_predict", 10}, {"n_probs", 10}};
  EXPECT_EQ(refused_by("/completion", body), 200);
  body["n"] = 2;
  EXPECT_EQ(refused_by("/completion", body), "n_probs");
  body["n_predict"] = 5;
  EXPECT_EQ(refused_by("/completion", body), 200);
  body["n_predict"] = 50;
  body["stream"] = true;
  EXPECT_EQ(refused_by("/completion", body), 200) << "what is told at once is not kept";
  const json chat = {{"messages", kOneMessage}, {"max_tokens", 50}, {"logprobs", true}, {"top_logprobs", 3}};
  EXPECT_EQ(refused_by("/v1/chat/completions", chat), "top_logprobs");
  json scored = {{"prompt", long_text(200)}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}};
  EXPECT_EQ(refused_by("/v1/completions", scored), "logprobs");
  scored["stream"] = true;
  EXPECT_EQ(refused_by("/v1/completions", scored), "logprobs") << "a prompt's are kept until it has been read";
  options.limits.most_probabilities = 16 * 100;
  options.limits.most_streamed = 8;
  const TestServer streaming(options);
  const auto asks = [&](int words, int likely) {
    const json request = {{"prompt", long_text(words)}, {"max_tokens", 1}, {"echo", true}, {"logprobs", likely}};
    json streamed = request;
    streamed["stream"] = true;
    return std::pair(streaming.post("/v1/completions", request).status,
                     streaming.post("/v1/completions", streamed).status);
  };
  EXPECT_EQ(asks(20, 1), std::pair(200, 200));
  EXPECT_EQ(asks(120, 1), std::pair(200, 400)) << "a stream has a sixteenth for its prompts";
  EXPECT_EQ(asks(1, 9), std::pair(200, 400)) << "and so many for each token";
  // Who says no length gets as much as there is room for.
  const json endless = {{"prompt", "a"}, {"n_probs", 10}, {"n", 2}, {"ignore_eos", true}};
  const json answers = server.post("/completion", endless).json();
  ASSERT_EQ(answers.size(), 2u) << answers;
  for (const json& answer : answers) {
    EXPECT_EQ(answer["tokens_predicted"], 5) << answer;
    EXPECT_EQ(answer["stop_type"], "limit");
  }
}

TEST(ServerAmounts, BiasesAreCountedAsTokensAndForEveryAnswer) {
  const TestServer server;
  const auto refused = [&](const json& biases, int answers = 1) {
    const Answer answer =
        server.post("/completion", {{"prompt", "a"}, {"n_predict", 1}, {"n", answers}, {"logit_bias", biases}});
    if (answer.status == 200) return std::string();
    EXPECT_EQ(answer.status, 400) << answer.body.substr(0, 300);
    EXPECT_EQ(answer.json()["error"]["param"], "logit_bias") << answer.body.substr(0, 300);
    return answer.json()["error"]["message"].get<std::string>();
  };
  const std::string text = long_text(500);
  EXPECT_EQ(refused({{text, -1}}), "");
  EXPECT_NE(refused({{std::string(4097, 'a'), -1}}).find("4097 bytes"), std::string::npos);
  json texts = json::array();
  json tokens = json::array();
  for (int i = 0; i < 1000; ++i) texts.push_back({text, -1});
  for (int i = 0; i < 10000; ++i) tokens.push_back({i % 100, -1});
  EXPECT_NE(refused(texts).find("100000 tokens"), std::string::npos) << "a thousand texts are many tokens";
  EXPECT_EQ(refused(tokens, 2), "");
  EXPECT_NE(refused(tokens, 128).find("128 answers"), std::string::npos);
}

TEST(ServerAmounts, TextsThatEveryAnswerHasACopyOfAreShort) {
  const TestServer server;
  for (const char* name : {"stop", "stop_sequences", "dry_sequence_breakers", "samplers"}) {
    json body = {{"prompt", "a"}, {"n_predict", 1}};
    for (const json& value : {json(std::string(4097, 'x')), json({"a", std::string(4097, 'x')})}) {
      body[name] = value;
      const Answer answer = server.post("/completion", body);
      EXPECT_EQ(answer.status, 400) << name;
      EXPECT_EQ(answer.json()["error"]["param"], name);
      EXPECT_NE(answer.body.find("4096"), std::string::npos) << answer.body.substr(0, 300);
    }
    if (name == std::string("samplers")) continue;
    body[name] = {std::string(4096, 'x')};
    EXPECT_EQ(server.post("/completion", body).status, 200) << name;
  }
}

TEST(ServerAmounts, AnswersOfTokenizeHaveABound) {
  ServerOptions options = test_options();
  options.limits.most_tokens = 1000;
  options.limits.most_pieces = 100;
  const TestServer server(options);
  const auto status_of = [&](const char* path, const json& body, const char* name) {
    const Answer answer = server.post(path, body);
    if (answer.status != 200) {
      EXPECT_EQ(answer.json()["error"]["param"], name) << answer.body;
    }
    return answer.status;
  };
  const std::string some = long_text(20);
  const std::string middle = long_text(200);
  const std::string many = long_text(2000);
  const json tokens = server.post("/tokenize", {{"content", middle}}).json()["tokens"];
  ASSERT_GT(tokens.size(), 100u);
  ASSERT_LE(tokens.size(), 1000u);
  EXPECT_EQ(status_of("/tokenize", {{"content", some}, {"with_pieces", true}}, "content"), 200);
  EXPECT_EQ(status_of("/tokenize", {{"content", middle}, {"with_pieces", true}}, "content"), 400);
  EXPECT_EQ(status_of("/tokenize", {{"content", many}}, "content"), 400);
  EXPECT_EQ(status_of("/tokenize", {{"prompt", middle}}, "prompt"), 200);
  EXPECT_EQ(status_of("/tokenize", {{"prompt", middle}, {"return_token_strs", true}}, "prompt"), 400);
  EXPECT_EQ(status_of("/detokenize", {{"tokens", tokens}}, "tokens"), 400);
  EXPECT_EQ(status_of("/detokenize", {{"tokens", {72, 101}}}, "tokens"), 200);
}

}  // namespace
}  // namespace ei::server
