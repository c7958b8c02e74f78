// What one request has done for itself - a grammar, likely tokens - costs its own time and not its neighbours'.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

// A stream's speed, by the server's own clock, in tokens a second.
double speed_of(const TestServer& server) {
  const json body = {{"prompt", "a b c"}, {"n_predict", 150}, {"ignore_eos", true}, {"cache_prompt", false}};
  return server.post("/completion", body).json()["timings"]["predicted_per_second"];
}

int64_t busy_slots(const TestServer& server) {
  const json slots = server.get("/slots").json();
  return std::count_if(slots.begin(), slots.end(), [](const json& slot) { return slot["is_processing"] == true; });
}

// How much of its speed a stream keeps beside `neighbour`, which writes all the while. The best of some rounds, each
// against the slower of two measures around it: other programs on the machine are no fault of the neighbour.
double share_beside(const TestServer& server, json neighbour) {
  neighbour.update({{"prompt", "d e f"}, {"ignore_eos", true}, {"stream", true}, {"cache_prompt", false}});
  double best = 0;
  double before = speed_of(server);
  for (int round = 0; round < 4 && best < 0.5; ++round) {
    double beside = 0;
    {
      Client client(server.port());
      client.send(request_text("POST", "/completion", neighbour.dump()));
      EXPECT_NE(client.read_until("\"content\"").find("200 OK"), std::string::npos);
      beside = speed_of(server);
      EXPECT_EQ(busy_slots(server), 1) << "it was to write all the while";
    }
    EXPECT_TRUE(server.becomes_idle());
    const double after = speed_of(server);
    best = std::max(best, beside / std::min(before, after));
    before = after;
  }
  return best;
}

// A thousand ways to go on: wherever a word begins, every token of the vocabulary is tried by all of them.
std::string dear_grammar() {
  std::string grammar = "root ::= word+\nword ::= ";
  for (uint32_t i = 0; i < 1000; ++i) {
    grammar += i == 0 ? "\"" : "|\"";
    for (uint32_t letter = 0, rest = i * 2654435761u; letter < 7; ++letter, rest /= 26)
      grammar += static_cast<char>('a' + rest % 26);
    grammar += '"';
  }
  return grammar;
}

TEST(ServerShares, AStreamKeepsHalfOfItsSpeedBesideADearGrammar) {
  const TestServer server;
  EXPECT_GT(share_beside(server, {{"grammar", dear_grammar()}}), 0.35);
}

TEST(ServerShares, AStreamKeepsHalfOfItsSpeedBesideManyLikelyTokens) {
  const TestServer server;
  EXPECT_GT(share_beside(server, {{"n_probs", 4000}}), 0.35);
}

// The samplers of a pass have so much time, and who finds none left chooses in a turn of his own.
TEST(ServerShares, DearOnesAnswerAsTheyDoAlone) {
  ServerOptions options = test_options();
  options.scheduler.slots = 3;
  const TestServer server(options);
  const json request = {{"prompt", "d e f"}, {"n_predict", 20}, {"grammar", dear_grammar()}, {"cache_prompt", false}};
  const json alone = server.post("/completion", request).json();
  json together = request;
  together["n"] = 3;
  const json answers = server.post("/completion", together).json();
  ASSERT_EQ(answers.size(), 3u) << answers;
  for (const json& answer : answers) EXPECT_EQ(answer["content"], alone["content"]);
}

}  // namespace
}  // namespace ei::server
