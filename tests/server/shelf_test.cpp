// A long text is sent once and named afterwards.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

Answer leave(const TestServer& server, const std::string& text, const std::string& headers = {}) {
  Client client(server.port());
  client.send(request_text("POST", "/texts", text, headers));
  return client.read();
}

json user_says(const json& content) {
  return {{"messages", {{{"role", "user"}, {"content", content}}}}, {"max_tokens", 8}, {"ignore_eos", true}};
}

TEST(ServerShelf, ATextThatIsNamedIsTheTextThatWasLeft) {
  const TestServer server;
  const std::string text = long_text(300);
  const Answer left = leave(server, text);
  ASSERT_EQ(left.status, 200) << left.body;
  EXPECT_EQ(left.json()["bytes"], text.size());
  const json named = {{"text_id", left.json()["id"]}};
  const json question = {{"type", "text"}, {"text", "Which key?"}};
  const json sent =
      server.post("/v1/chat/completions", user_says({{{"type", "text"}, {"text", text}}, question})).json();
  const json once = server.post("/v1/chat/completions", user_says({named, question})).json();
  EXPECT_EQ(once["choices"][0]["message"]["content"], sent["choices"][0]["message"]["content"]);
  EXPECT_EQ(once["usage"]["prompt_tokens"], sent["usage"]["prompt_tokens"]);
  EXPECT_GT(once["usage"]["prompt_tokens_details"]["cached_tokens"], 250);
  // The same without a template, made tokens of as one text.
  const json whole = server.post("/completion", {{"prompt", text + " who"}, {"n_predict", 4}}).json();
  const json parts =
      server.post("/completion", {{"prompt", {{"prompt_parts", {named, " who"}}}}, {"n_predict", 4}}).json();
  EXPECT_EQ(parts["content"], whole["content"]);
  EXPECT_EQ(parts["tokens_evaluated"], whole["tokens_evaluated"]);
}

TEST(ServerShelf, WhatIsNotThereIsA404AndWhatIsNoTextIsRefused) {
  const TestServer server;
  const json nobody = {{"text_id", "text-nobody"}};
  for (const Answer& answer : {server.post("/v1/chat/completions", user_says(json::array({nobody}))),
                               server.post("/completion", {{"prompt", {{"prompt_parts", json::array({nobody})}}}})}) {
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(answer.json()["error"]["param"], "text_id") << answer.body;
  }
  EXPECT_EQ(server.post("/completion", {{"prompt", {{"prompt_parts", json::array({5})}}}}).json()["error"]["param"],
            "prompt");
  EXPECT_EQ(leave(server, "\xff\xfe").status, 400);
  EXPECT_EQ(leave(server, "").status, 400);
  ServerOptions options = test_options();
  options.keys = {"secret"};
  const TestServer closed(options);
  EXPECT_EQ(leave(closed, "text").status, 401);
  EXPECT_EQ(leave(closed, "text", "Authorization: Bearer secret\r\n").status, 200);
}

}  // namespace
}  // namespace ei::server
