// Long texts take long to become tokens: nobody with a short one waits for them, none is read for nothing, and who left
// is not served.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/clock.h"
#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

constexpr int kWordBytes = 7;  // of long_text(), about

std::string text_of(int64_t bytes) {
  std::string text = long_text(static_cast<int>(bytes / kWordBytes) + 1000);
  text.resize(static_cast<size_t>(bytes));
  return text;
}

ServerOptions with_context(int64_t tokens) {
  ServerOptions options = test_options();
  options.scheduler.session.context = tokens;
  return options;
}

// Sends it; by the time this returns the server has begun with it.
void begin(Client& client, const std::string& path, const json& body) {
  client.send(request_text("POST", path, body.dump()));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

TEST(ServerLongTexts, HoldUpNobodyWithAShortOne) {
  const TestServer server(with_context(2048));
  const json text = text_of(int64_t{6} << 20);
  Client longest(server.port());
  begin(longest, "/tokenize", {{"content", text}});
  EXPECT_EQ(server.post("/completion", {{"prompt", "a b c"}, {"n_predict", 1}}).status, 200);
  EXPECT_EQ(server.post("/tokenize", {{"content", "a b c"}}).status, 200);
  EXPECT_EQ(server.get("/v1/models").status, 200);
  EXPECT_EQ(server.post("/tokenize", {{"content", text_of(100000)}}).status, 200) << "nor one of middle length";
  EXPECT_FALSE(longest.heard()) << "the long text was to take longer than these";
  const Answer answer = longest.read();
  EXPECT_GT(answer.json()["tokens"].size(), size_t{6 << 20} / 16);
}

// A short request that names a long text is a long one.
TEST(ServerLongTexts, ThatAreNamedHoldUpNobodyEither) {
  const TestServer server(with_context(2048));
  Client sender(server.port());
  sender.send(request_text("POST", "/texts", text_of(int64_t{6} << 20)));
  const json named = {{"text_id", sender.read().json()["id"]}};
  const json chat = {{"messages", {{{"role", "user"}, {"content", json::array({named})}}}}, {"max_tokens", 1}};
  Client counts(server.port());
  begin(counts, "/v1/messages/count_tokens", chat);
  EXPECT_EQ(server.post("/tokenize", {{"content", "a b c"}}).status, 200);
  EXPECT_FALSE(counts.heard());
  EXPECT_GT(counts.read().json()["input_tokens"], (6 << 20) / 16);
  const Answer refused = server.post("/v1/chat/completions", chat);
  EXPECT_EQ(refused.json()["error"]["type"], "exceed_context_size_error") << refused.body;
  // As often as a body has room for its name, it would be more than anybody has memory for.
  json many = json::array();
  for (int i = 0; i < 100; ++i) many.push_back(named);
  for (const Answer& answer :
       {server.post("/completion", {{"prompt", {{"prompt_parts", many}}}}),
        server.post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", many}}}}})}) {
    EXPECT_EQ(answer.status, 413);
    EXPECT_EQ(answer.json()["error"]["param"], "text_id") << answer.body;
  }
}

TEST(ServerLongTexts, BeyondTheContextAreRefusedWithoutBeingReadToTheEnd) {
  const TestServer server(with_context(2048));
  const std::string text = text_of(int64_t{3} << 20);
  const double begun = now_s();
  const int64_t tokens = server.post("/tokenize", {{"content", text}}).json()["tokens"].size();
  const double whole_s = now_s() - begun;
  const json messages = {{{"role", "user"}, {"content", text}}};
  const std::vector<std::pair<const char*, json>> requests = {
      {"/completion", {{"prompt", text}}},
      {"/v1/completions", {{"prompt", {text, "a"}}}},
      {"/v1/chat/completions", {{"messages", messages}}},
      {"/v1/messages", {{"messages", messages}, {"max_tokens", 1}}},
      {"/v1/responses", {{"input", text}}}};
  for (const auto& [path, body] : requests) {
    const double asked = now_s();
    const Answer answer = server.post(path, body);
    const double took = now_s() - asked;
    const json error = answer.json()["error"];
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_EQ(error["type"], "exceed_context_size_error") << path << " " << answer.body.substr(0, 300);
    EXPECT_EQ(error["n_ctx"], 2048);
    EXPECT_GE(error["n_prompt_tokens"], 2048);
    EXPECT_LE(error["n_prompt_tokens"], tokens);
    EXPECT_LT(took, whole_s / 2) << path << ": to make tokens of all of it took " << whole_s << " s";
  }
}

TEST(ServerLongTexts, OfClientsThatLeftAreNotRead) {
  const TestServer server;
  const json body = {{"content", text_of(int64_t{1} << 20)}};
  const double begun = now_s();
  ASSERT_EQ(server.post("/tokenize", body).status, 200);
  const double one_s = now_s() - begun;
  Client first(server.port());
  begin(first, "/tokenize", body);
  for (int i = 0; i < 8; ++i) {
    Client leaves(server.port());
    leaves.send(request_text("POST", "/tokenize", body.dump()));
  }
  const double asked = now_s();
  EXPECT_EQ(server.post("/tokenize", body).status, 200);
  EXPECT_LT(now_s() - asked, 5 * one_s) << "of ten texts in a row two are wanted";
  EXPECT_EQ(first.read().status, 200);
}

}  // namespace
}  // namespace ei::server
