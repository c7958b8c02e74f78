// A thousand clients at a time, and clients that do not read: one I/O thread, and memory that stays bounded.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

// May this process have so many connections to itself?
bool may_connect(rlim_t connections) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
  ::setrlimit(RLIMIT_NOFILE, &files);
  return files.rlim_cur >= 2 * connections + 100;
}

int64_t own_threads() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Threads:")) return std::stoll(line.substr(8));
  return 0;
}

// Of which 16 generate at a time; the others wait.
TEST(ServerCrowd, AThousandStreamsTakeOneThreadAndLittleMemory) {
  constexpr int kStreams = 1000;
  constexpr int kTokens = 2;
  if (!may_connect(kStreams)) GTEST_SKIP() << "this process may not open so many files";
  ServerOptions options = test_options();
  options.scheduler.slots = 16;
  options.scheduler.queue = 2 * kStreams;
  options.http.keep_alive_s = 0.5;  // those that wait hear of it
  const TestServer server(options);
  const json request = {{"prompt", "a b"}, {"n_predict", kTokens},  {"ignore_eos", true},
                        {"stream", true},  {"cache_prompt", false}, {"return_progress", true}};
  const std::string alone = server.post("/completion", request).body;
  const std::string text = request_text("POST", "/completion", request.dump());
  const int64_t before = resident_bytes();
  const int64_t threads_before = own_threads();
  std::vector<std::unique_ptr<Client>> clients;
  int64_t most = before;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(text);
    if (i % 200 == 199) most = std::max(most, resident_bytes());
  }
  EXPECT_EQ(own_threads(), threads_before);
  const double asked = now_s();
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_LT(now_s() - asked, 5) << "of a busy machine; alone it takes milliseconds";
  int right = 0;
  for (const auto& client : clients) {
    const Answer answer = client->read();
    const std::vector<json> events = answer.events();
    right += answer.status == 200 && !events.empty() && events.back().value("tokens_predicted", 0) == kTokens ? 1 : 0;
    if (right % 200 == 199) most = std::max(most, resident_bytes());
  }
  EXPECT_EQ(right, kStreams);
  EXPECT_LE(most - before, int64_t{64} << 20) << "bytes over the model and its first answer";
  RecordProperty("bytes", std::to_string(most - before));
  std::printf("a thousand streams: %.1f MiB\n", static_cast<double>(most - before) / (1 << 20));
}

// None ends before all have begun: then every one of them has a session, and they leave in the middle of their answers.
TEST(ServerCrowd, AThousandThatGenerateAtOnceTakeTheirCachesAndAQuarterOfAMebibyteEach) {
  constexpr size_t kStreams = 1000;
  if (!may_connect(kStreams)) GTEST_SKIP() << "this process may not open so many files";
  ServerOptions options = test_options();
  options.scheduler.slots = kStreams;
  options.scheduler.queue = kStreams;
  options.scheduler.session.context = 1024;
  const TestServer server(options);
  json request = {{"prompt", "a b"}, {"n_predict", 64}, {"ignore_eos", true}, {"cache_prompt", false}};
  const std::string alone = server.post("/completion", request).json()["content"];
  request["stream"] = true;
  request["n_predict"] = 1000;
  const std::string text = request_text("POST", "/completion", request.dump());
  const int64_t before = resident_bytes();
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(text);
  }
  size_t right = 0;
  for (const auto& client : clients) {
    const std::string stream = client->read_until("\"tokens_predicted\":2,");
    std::string said;
    for (size_t at = stream.find("data: "); at != std::string::npos; at = stream.find("data: ", at + 1)) {
      const json event = json::parse(stream.substr(at + 6, stream.find('\n', at) - at - 6), nullptr, false);
      said += event.is_object() ? event.value("content", "") : "";
    }
    right += !said.empty() && said.substr(0, alone.size()) == alone.substr(0, said.size()) ? 1 : 0;
  }
  EXPECT_EQ(right, kStreams);
  size_t generating = 0;
  int64_t caches = 0;
  for (const json& slot : server.get("/slots").json()) {
    if (!slot["is_processing"].get<bool>() || slot["is_reading"].get<bool>()) continue;
    ++generating;
    caches += slot["timings"]["kv_bytes"].get<int64_t>();
  }
  const int64_t taken = resident_bytes() - before;
  EXPECT_EQ(generating, kStreams);
  // Logits, what is sampled from and the nodes of a graph: seen 276 KiB.
  EXPECT_LE(taken, caches + static_cast<int64_t>(kStreams) * (320 << 10))
      << "bytes, of which the caches are " << caches;
  const double mib = 1 << 20;
  std::printf("a thousand at once: %.1f MiB, of which the caches are %.1f\n", static_cast<double>(taken) / mib,
              static_cast<double>(caches) / mib);
  clients.clear();
  EXPECT_TRUE(server.becomes_idle());
}

TEST(ServerCrowd, AClientThatDoesNotReadIsGivenUp) {
  ServerOptions options = test_options();
  options.http.unread_bytes = 64 << 10;
  options.http.write_s = 60;
  options.scheduler.slots = 2;
  const TestServer server(options);
  const json endless = {{"prompt", "The key is 7. The key is"},
                        {"n_predict", 100000},
                        {"ignore_eos", true},
                        {"stream", true},
                        {"n_probs", 400}};  // events of many bytes fill what the system keeps for a socket
  Client sleeper(server.port());
  sleeper.send(request_text("POST", "/completion", endless.dump()));
  ASSERT_TRUE(server.becomes_busy());
  const int64_t before = resident_bytes();
  EXPECT_TRUE(server.becomes_idle()) << "it was to be given up";
  EXPECT_LT(resident_bytes() - before, int64_t{32} << 20);
  EXPECT_EQ(server.post("/completion", {{"prompt", "a b c"}, {"n_predict", 2}}).status, 200);
}

TEST(ServerCrowd, AClientThatReadsGetsLargeEventsToTheEnd) {
  ServerOptions options = test_options();
  options.http.unread_bytes = 64 << 10;
  const TestServer server(options);
  const Answer answer = server.post("/completion", {{"prompt", "The key is 7. The key is"},
                                                    {"n_predict", 64},
                                                    {"ignore_eos", true},
                                                    {"stream", true},
                                                    {"n_probs", 400}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("\"stop\":true"), std::string::npos) << answer.body.size() << " bytes came";
}

}  // namespace
}  // namespace ei::server
