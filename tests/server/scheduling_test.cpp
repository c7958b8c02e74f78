// Many at a time: nobody waits long for anybody, and nobody's answer depends on the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

json short_request(int seed) {
  return {{"prompt", long_text(20, seed)}, {"n_predict", 24}, {"ignore_eos", true}, {"cache_prompt", false}};
}

TEST(ServerScheduling, AShortRequestPassesALongPromptAndBothAnswerAsAlone) {
  const TestServer server;
  const json long_request = {{"prompt", long_text(2500)}, {"n_predict", 4}, {"cache_prompt", false}};
  const json alone = server.post("/completion", short_request(5)).json();
  const json long_alone = server.post("/completion", long_request).json();

  std::atomic<double> long_done{0};
  json long_answer;
  std::thread reader([&] {
    long_answer = server.post("/completion", long_request).json();
    long_done = now_s();
  });
  ASSERT_TRUE(server.becomes_busy());
  const json answer = server.post("/completion", short_request(5)).json();
  EXPECT_EQ(long_done, 0) << "the long prompt was to be still in work";
  reader.join();
  EXPECT_EQ(answer["content"], alone["content"]);
  EXPECT_EQ(long_answer["content"], long_alone["content"]);
}

TEST(ServerScheduling, ManyAtATimeAnswerAsOneByOne) {
  ServerOptions options = test_options();
  options.scheduler.slots = 3;
  const TestServer server(options);
  std::vector<std::string> alone(8);
  for (int i = 0; i < 8; ++i)
    alone[static_cast<size_t>(i)] = server.post("/completion", short_request(i)).json()["content"];
  std::vector<std::string> together(8);
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&, i] {
      together[static_cast<size_t>(i)] =
          server.post("/completion", short_request(i)).json().value("content", "nothing");
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(together, alone);
}

TEST(ServerScheduling, OfThoseThatWaitTheMostUrgentBeginsFirst) {
  ServerOptions options = test_options();
  options.scheduler.slots = 1;
  const TestServer server(options);
  Client first(server.port());
  first.send(request_text("POST", "/completion",
                          json{{"prompt", long_text(3000)}, {"n_predict", 1}, {"stream", true}}.dump()));
  first.read_until("200 OK");
  std::atomic<double> done[2] = {0, 0};
  std::vector<std::thread> clients;
  for (const int priority : {1, -1}) {
    json request = short_request(priority + 5);
    request["priority"] = priority;
    clients.emplace_back([&, request, priority] {
      EXPECT_EQ(server.post("/completion", request).status, 200);
      done[priority > 0 ? 0 : 1] = now_s();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the one that came first is less urgent
  }
  for (std::thread& client : clients) client.join();
  EXPECT_LT(done[1], done[0]);
}

// Two prompts of the same length, read beside each other: how much of the second has been read, of what has been read
// of the first since both were in work, when the first is nearly done. By the server's own figures of one moment.
double share_beside(int priority, int beside) {
  ServerOptions options = test_options();
  options.scheduler.slots = 2;
  options.scheduler.shared_chunk_s = 0.02;  // many turns in a short test
  options.scheduler.chunk_s = 0.02;
  const TestServer server(options);
  // Tokens, of which nothing is to be made: the second is in work when the first has hardly begun.
  const auto tokens_of = [&](int seed) {
    return server.post("/tokenize", {{"content", long_text(9000, seed)}}).json()["tokens"];
  };
  const json prompts[] = {tokens_of(20), tokens_of(21)};
  const auto begin = [&](Client& client, int slot, int urgency) {
    const json body = {{"prompt", prompts[slot]}, {"n_predict", 1},  {"stream", true},
                       {"cache_prompt", false},   {"id_slot", slot}, {"priority", urgency}};
    client.send(request_text("POST", "/completion", body.dump()));
    client.read_until("200 OK");
  };
  const auto look = [&] { return server.get("/slots").json(); };
  const auto read_of = [](const json& slots, int slot) {
    return slots[static_cast<size_t>(slot)].value("n_prompt_tokens_processed", 0.0);
  };
  Client first(server.port()), second(server.port());
  begin(first, 0, priority);
  begin(second, 1, beside);
  const json start = look();
  const double all = start[0].value("n_prompt_tokens", 0.0);
  EXPECT_LT(read_of(start, 0), all / 2) << "the second came too late";
  json now = start;
  while (read_of(now, 0) < 0.9 * all) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const json next = look();
    if (next[0]["is_processing"] != true || next[1]["is_processing"] != true) break;
    now = next;
  }
  return (read_of(now, 1) - read_of(start, 1)) / (read_of(now, 0) - read_of(start, 0));
}

TEST(ServerScheduling, EqualsGetEqualSharesOfTheTime) {
  const double share = share_beside(0, 0);
  EXPECT_GT(share, 0.7);
  EXPECT_LT(share, 1.4);
}

TEST(ServerScheduling, AStepOfPriorityDoublesTheShare) {
  const double share = share_beside(-1, 0);
  EXPECT_GT(share, 0.3);
  EXPECT_LT(share, 0.8) << "in half of the time, of a text whose first half is read faster than its second";
}

TEST(ServerScheduling, AFullQueueSaysWhenToComeAgain) {
  ServerOptions options = test_options();
  options.scheduler.slots = 1;
  options.scheduler.queue = 1;
  const TestServer server(options);
  const json request = {{"prompt", long_text(3000)}, {"n_predict", 1}, {"stream", true}};
  Client first(server.port());
  first.send(request_text("POST", "/completion", request.dump()));
  first.read_until("200 OK");
  Client second(server.port());
  second.send(request_text("POST", "/completion", request.dump()));
  Answer refused;
  for (int i = 0; i < 100 && refused.status != 429; ++i) {
    Client third(server.port());
    third.send(request_text("POST", "/completion", json{{"prompt", "a"}, {"n_predict", 1}}.dump()));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    refused = server.post("/completion", {{"prompt", "a"}, {"n_predict", 1}, {"timeout", 0.001}});
  }
  EXPECT_EQ(refused.status, 429);
  EXPECT_TRUE(refused.headers.contains("retry-after"));
}

TEST(ServerScheduling, AStreamTellsOfItsPromptAndIsNeverSilentForLong) {
  ServerOptions options = test_options();
  options.scheduler.slots = 1;
  options.http.keep_alive_s = 0.02;
  const TestServer server(options);
  json request = {{"prompt", long_text(1200)}, {"n_predict", 2}, {"stream", true}, {"return_progress", true}};
  const Answer answer = server.post("/completion", request);
  EXPECT_NE(answer.body.find(": keep-alive\n\n"), std::string::npos);
  int64_t before = -1;
  int told = 0;
  for (const json& event : answer.events()) {
    if (!event.contains("prompt_progress")) continue;
    const json& progress = event["prompt_progress"];
    EXPECT_GE(progress["processed"], before);
    EXPECT_GE(progress["total"], progress["processed"]);
    EXPECT_EQ(progress["cache"], 0);
    before = progress["processed"];
    ++told;
  }
  EXPECT_GE(told, 3);
  EXPECT_GT(before, 1000);
  // A deadline that passes while the prompt is read is an error, and while the answer is written its end.
  const Answer late = server.post("/completion", {{"prompt", long_text(3000, 2)}, {"timeout", 0.05}});
  EXPECT_EQ(late.status, 504) << late.body;
  EXPECT_NE(late.body.find("time was over"), std::string::npos) << late.body;
  const json cut = server.post("/completion", {{"prompt", "a b"}, {"ignore_eos", true}, {"timeout", 0.3}}).json();
  EXPECT_EQ(cut["stop_type"], "limit") << cut;
}

TEST(ServerScheduling, AStreamThatWaitsForASlotIsNotSilentEither) {
  ServerOptions options = test_options();
  options.scheduler.slots = 1;
  options.http.keep_alive_s = 0.1;
  const TestServer server(options);
  auto holder = std::make_unique<Client>(server.port());
  holder->send(request_text("POST", "/completion", json{{"prompt", "a b"}, {"ignore_eos", true}}.dump()));
  ASSERT_TRUE(server.becomes_busy());
  // Before the head is sent, and where there is no stream, an error is a status.
  json body = {{"prompt", "a b"}, {"n_predict", 2}, {"stream", true}, {"timeout", 0.02}};
  EXPECT_EQ(server.post("/completion", body).status, 504);
  EXPECT_EQ(server.post("/completion", {{"prompt", "a b"}, {"timeout", 0.3}}).status, 504);
  body["timeout"] = 1;
  const Answer late = server.post("/completion", body);
  EXPECT_EQ(late.status, 200);
  EXPECT_NE(late.body.find(": keep-alive\n\n"), std::string::npos) << late.body;
  ASSERT_EQ(late.events().size(), 1u) << late.body;
  EXPECT_EQ(late.events()[0]["error"]["code"], 504);
  EXPECT_EQ(late.events()[0]["error"]["type"], "timeout_error");
  EXPECT_NE(late.events()[0]["error"]["message"].get<std::string>().find("time was over"), std::string::npos);

  const json messages = {{{"role", "user"}, {"content", "a b"}}};
  const json asked = {{"prompt", "a b"}, {"messages", messages}, {"input", "a b"}, {"max_tokens", 2}, {"stream", true}};
  std::vector<std::unique_ptr<Client>> clients;
  for (const char* path : {"/completion", "/v1/chat/completions", "/v1/responses", "/v1/messages"}) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(request_text("POST", path, asked.dump()));
    const std::string begun = clients.back()->read_until(": keep-alive");
    EXPECT_TRUE(begun.starts_with("HTTP/1.1 200")) << begun;
    EXPECT_EQ(begun.find("data:"), std::string::npos) << begun;
  }
  holder.reset();
  std::vector<json> first;
  for (const auto& client : clients) {
    const Answer answer = client->read();
    ASSERT_GE(answer.events().size(), 3u) << answer.body;
    first.push_back(answer.events()[0]);
  }
  EXPECT_EQ(first[1]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(first[2]["type"], "response.created");
  const json& usage = first[3]["message"]["usage"];
  EXPECT_GT(usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>(), 0) << first[3];
}

// The median of some requests for /health, in seconds.
double health_takes(uint16_t port, int asked) {
  std::vector<double> took;
  for (int i = 0; i < asked; ++i) {
    const double begun = now_s();
    EXPECT_NE(get(port, "/health").status, 0);
    took.push_back(now_s() - begun);
  }
  std::nth_element(took.begin(), took.begin() + asked / 2, took.end());
  return took[static_cast<size_t>(asked / 2)];
}

// Where the machine itself is slow, the measure is a server that does nothing but answer, asked at the same time.
TEST(ServerScheduling, HealthIsAnsweredAtOnceWhileAPromptIsRead) {
  const TestServer server;
  auto idle = Server::listen(test_options());
  ASSERT_TRUE(idle.ok()) << idle.error().message;
  Client client(server.port());
  const json request = {{"prompt", long_text(9000)}, {"n_predict", 1}, {"stream", true}, {"return_progress", true}};
  client.send(request_text("POST", "/completion", request.dump()));
  client.read_until("prompt_progress");
  double beside = 0;
  double alone = 0;
  for (int round = 0; round < 5; ++round) {
    beside += health_takes(server.port(), 9) / 5;
    alone += health_takes((*idle)->port(), 9) / 5;
  }
  bool reading = false;
  for (const json& slot : server.get("/slots").json()) reading = reading || slot["is_reading"].get<bool>();
  EXPECT_TRUE(reading) << "the prompt was read before everything was asked: " << beside << " s and " << alone << " s";
  EXPECT_LT(beside, std::max(0.05, 10 * alone)) << "alone " << alone;
}

TEST(ServerScheduling, StoppingFinishesWhatIsUnderWay) {
  ServerOptions options = test_options();
  options.metrics = true;
  TestServer server(options);
  json answer;
  std::thread client([&] {
    answer = server.post("/completion", {{"prompt", long_text(6000)}, {"n_predict", 8}, {"ignore_eos", true}}).json();
  });
  ASSERT_TRUE(server.becomes_busy());
  std::thread stopping([&] { server.server().drain(60); });
  while (server.get("/health").status == 200) {
  }
  // While it is under way.
  const int slots = server.get("/slots").status;
  const int figures = server.get("/metrics").status;
  const int fresh = server.post("/completion", {{"prompt", "a"}, {"n_predict", 1}}).status;
  stopping.join();
  EXPECT_EQ(slots, 200) << "whoever watches sees the end";
  EXPECT_EQ(figures, 200);
  EXPECT_EQ(fresh, 503);
  client.join();
  EXPECT_EQ(answer["tokens_predicted"], 8) << answer;
}

TEST(ServerScheduling, StoppingWaitsForWhoIsSlowToRead) {
  auto server = std::make_unique<TestServer>();
  const std::string text(size_t{5} << 19, '\1');  // six bytes each in JSON: more than the system keeps for a socket
  const json message = {{"role", "user"}, {"content", text}};
  Client slow(server->port());
  slow.send(request_text("POST", "/apply-template", json{{"messages", {message}}}.dump()));
  slow.read_until("200 OK");
  std::thread stopping([&] {
    server->server().drain(60);
    server = nullptr;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_GT(slow.read().body.size(), 6 * text.size());
  stopping.join();
}

}  // namespace
}  // namespace ei::server
