// Scores of /v1/completions, and an echoed prompt: whole, and as a stream, which joined is the same.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "engine/generate.h"
#include "server/test_server.h"
#include "support/embedded_engine.h"

namespace ei::server {
namespace {

using nlohmann::json;

constexpr const char* kLists[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset", "content"};

struct Joined {
  std::string first{};  // what the first event says
  std::string text{};
  json logprobs = nullptr;
  json finish_reason = nullptr;
};

// One choice of a stream.
Joined joined(const std::vector<json>& events, int index) {
  Joined all;
  bool begun = false;
  for (const json& event : events) {
    for (const json& choice : event["choices"]) {
      if (choice["index"] != index) continue;
      const std::string text = choice["text"];
      if (!std::exchange(begun, true)) all.first = text;
      all.text += text;
      if (!choice["finish_reason"].is_null()) all.finish_reason = choice["finish_reason"];
      if (choice["logprobs"].is_null()) continue;
      for (const char* list : kLists)
        for (const json& one : choice["logprobs"][list]) all.logprobs[list].push_back(one);
    }
  }
  return all;
}

void expect_alike(const TestServer& server, json body) {
  const json whole = server.post("/v1/completions", body).json()["choices"];
  body["stream"] = true;
  const std::vector<json> events = server.post("/v1/completions", body).events();
  ASSERT_FALSE(whole.empty());
  for (const json& choice : whole) {
    const Joined streamed = joined(events, choice["index"]);
    EXPECT_EQ(streamed.text, choice["text"]) << body;
    EXPECT_EQ(streamed.finish_reason, choice["finish_reason"]) << body;
    EXPECT_EQ(streamed.logprobs.is_null(), choice["logprobs"].is_null()) << body;
    if (choice["logprobs"].is_null()) continue;
    for (const char* list : kLists) {
      const json none = json::array();
      EXPECT_EQ(streamed.logprobs.value(list, none), choice["logprobs"][list]) << list << " of " << body;
    }
    EXPECT_EQ(choice["logprobs"]["text_offset"].size(), choice["logprobs"]["tokens"].size()) << body;
  }
}

// Characters of several bytes, which tokens may share, and several answers whose pieces come by turns.
TEST(ServerLogprobs, OfAStreamAreThoseOfTheWholeAnswer) {
  const TestServer server;
  const json body = {{"prompt", "The captain's café was by the river. The key is"},
                     {"max_tokens", 12},
                     {"ignore_eos", true},
                     {"logprobs", 3}};
  expect_alike(server, body);
  json many = body;
  many["prompt"] = {"The key is", "Été à la rivière: été, été, é"};
  many["n"] = 2;
  many["temperature"] = 1.0;
  many["seed"] = 7;
  expect_alike(server, many);
  json stopped = body;
  stopped["stop"] = {"e"};
  expect_alike(server, stopped);
  json plain = body;
  plain.erase("logprobs");
  expect_alike(server, plain);
}

TEST(ServerLogprobs, AnEchoedPromptIsTheFirstEventOfAStream) {
  const TestServer server;
  const std::string prompt = "The captain's café was by the river. The key is";
  json body = {{"prompt", prompt}, {"max_tokens", 4}, {"ignore_eos", true}, {"echo", true}};
  for (const int tokens : {4, 0}) {
    body["max_tokens"] = tokens;
    for (const json& logprobs : {json(nullptr), json(2)}) {
      body["logprobs"] = logprobs;
      expect_alike(server, body);
      json streamed = body;
      streamed["stream"] = true;
      EXPECT_TRUE(joined(server.post("/v1/completions", streamed).events(), 0).first.ends_with(prompt)) << body;
    }
  }
  json many = body;
  many["prompt"] = {"The key is", prompt};
  many["max_tokens"] = 3;
  many["n"] = 2;
  expect_alike(server, many);
}

TEST(ServerLogprobs, OfAPromptThatIsEchoedAreTheEnginesOwn) {
  const TestServer server;
  const text::Tokenizer& tokenizer = embedded_engine().tokenizer();
  const auto tokens = tokenizer.tokenize("The captain's café was by the river. The key is", {});
  ASSERT_TRUE(tokens.ok());
  std::vector<double> expected;
  const auto session = open_session(embedded_engine(), {});
  const Status read = session->evaluate(*tokens, [&](int64_t position, std::span<const float> logits) {
    if (position + 1 == static_cast<int64_t>(tokens->size())) return;
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const int32_t next = (*tokens)[static_cast<size_t>(position) + 1];
    expected.push_back(static_cast<double>(logits[static_cast<size_t>(next)]) - std::log(sum));
  });
  ASSERT_TRUE(read.ok());

  const json body = {{"prompt", *tokens}, {"echo", true}, {"logprobs", 3}, {"max_tokens", 1}};
  for (int i = 0; i < 2; ++i) {  // a text that is held must not shorten the list
    const json choice = server.post("/v1/completions", body).json()["choices"][0];
    const json& scores = choice["logprobs"];
    ASSERT_EQ(scores["token_logprobs"].size(), tokens->size() + 1) << "the token that was asked for is the last";
    EXPECT_TRUE(scores["token_logprobs"][0].is_null());
    EXPECT_TRUE(scores["top_logprobs"][0].is_null());
    for (size_t at = 1; at < tokens->size(); ++at) {
      EXPECT_NEAR(scores["token_logprobs"][at].get<double>(), expected[at - 1], 1e-4);
      EXPECT_EQ(scores["top_logprobs"][at].size(), 3u);
    }
    const std::string text = choice["text"];
    EXPECT_TRUE(text.starts_with(tokenizer.detokenize(*tokens, true)));
    // Offsets count characters, not bytes: é is one.
    const size_t bytes = tokenizer.detokenize(*tokens, true).size();
    EXPECT_EQ(scores["text_offset"][tokens->size()], bytes - 1);
  }
}

// As OpenAI's clients score a text: nothing is to be generated.
TEST(ServerLogprobs, OfAPromptAreThereWithoutAnAnswer) {
  const TestServer server;
  const json body = {{"prompt", "The key is 7."}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}};
  const json choice = server.post("/v1/completions", body).json()["choices"][0];
  const json tokens = server.post("/tokenize", {{"content", "The key is 7."}, {"add_special", true}}).json()["tokens"];
  ASSERT_FALSE(choice["logprobs"].is_null());
  EXPECT_EQ(choice["logprobs"]["token_logprobs"].size(), tokens.size());
}

}  // namespace
}  // namespace ei::server
