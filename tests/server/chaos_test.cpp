// Many clients that do what they like: requests of every kind, aborts, bad bytes. Every answer is right or a clean
// error, and afterwards the server is as it was. EI_CHAOS_SECONDS says how long (8); EI_CHAOS_SEED which (1). In a long
// run the memory of the first half must do for the second. EI_TEST_DEVICE says where the engine computes.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "server/test_server.h"
#include "support/embedded_engine.h"
#include "support/limited_backend.h"
#include "support/temp_folder.h"
#ifdef EI_HAVE_CUDA
#include "backend/cuda/cuda_memory.h"
#endif

namespace ei::server {
namespace {

using nlohmann::json;

int64_t setting(const char* name, int64_t fallback) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoll(value) : fallback;
}

const json kKnown = {{"prompt", "The pass key is 48213. The pass key is"}, {"n_predict", 8}};

class Troublemaker {
 public:
  // `refused`: memory runs out, so that any request may be.
  Troublemaker(const TestServer& server, const std::string& right, uint64_t seed, bool refused)
      : server_(server), right_(right), random_(seed), refused_(refused) {}

  // Where everything is slow (a sanitizer, a busy machine) until it has asked a few times.
  void run(double until) {
    while (now_s() < until || done < kLeast) {
      switch (random_.below(13)) {
        case 0: return_right(); break;
        case 1: leave(); break;
        case 2: speak_nonsense(); break;
        case 3: send_mutated(); break;
        case 4: chat(); break;
        case 5: expect_clean(server_.get("/metrics")); break;
        case 6: expect_clean(server_.post("/tokenize", {{"content", long_text(50)}})); break;
        case 7: be_killed(); break;
        case 8: complete(); break;
        case 9: send_messages(); break;
        case 10: respond(); break;
        case 11: use_a_slot(); break;
        default: sparse(); break;
      }
      ++done;
    }
  }
  int64_t done = 0;
  static constexpr int64_t kLeast = 4;

 private:
  void expect_clean(const Answer& answer) {
    EXPECT_TRUE(answer.status == 200 || (answer.status >= 400 && answer.status < 500) || answer.status == 503)
        << answer.status << " " << answer.body.substr(0, 300);
    EXPECT_TRUE(answer.status == 200 || answer.json().contains("error")) << answer.body.substr(0, 300);
  }

  void return_right() {
    const Answer answer = server_.post("/completion", kKnown);
    if (answer.status == 429 || (refused_ && answer.status == 503)) return;
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.json()["content"], right_) << answer.body;
  }

  // At any time: before the answer, in the prompt, in the stream.
  void leave() {
    Client client(server_.port());
    const json body = {
        {"prompt", long_text(static_cast<int>(random_.below(1500)) + 1, static_cast<int>(random_.below(5)))},
        {"n_predict", 40},
        {"stream", true}};
    const std::string text = request_text("POST", "/completion", body.dump());
    const auto part = static_cast<size_t>(random_.below(static_cast<int64_t>(text.size())));
    client.send(text.substr(0, random_.below(3) == 0 ? part : text.size()));
    if (random_.below(2) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random_.below(60)));
  }

  // A client of a process of its own, ended by SIGKILL while it waits. Behind the fork it only asks the system: other
  // threads of this process may have held any lock.
  void be_killed() {
    const json body = {
        {"prompt", long_text(static_cast<int>(random_.below(1500)) + 1)}, {"n_predict", 40}, {"stream", true}};
    const std::string text = request_text("POST", "/completion", body.dump());
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const pid_t client = ::fork();
    if (client == 0) {
      const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
      const bool sent = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                        ::write(socket, text.data(), text.size()) > 0;
      if (!sent) ::_exit(0);
      for (;;) ::pause();
    }
    if (client < 0) return;  // no memory for it
    std::this_thread::sleep_for(std::chrono::milliseconds(random_.below(60)));
    ::kill(client, SIGKILL);
    ::waitpid(client, nullptr, 0);
  }

  void speak_nonsense() {
    Client client(server_.port());
    std::string bytes = random_.below(2) == 0 ? "POST /completion HTTP/1.1\r\nContent-Length: 40\r\n\r\n" : "";
    for (int64_t left = 40 + random_.below(200); left > 0; --left) bytes += static_cast<char>(random_.below(256));
    client.send(bytes);
  }

  // A good request with some bytes changed: whatever it says now, the answer is one.
  void send_mutated() {
    json body = {{"messages", {{{"role", "user"}, {"content", "hello"}}}},
                 {"max_tokens", 4},
                 {"temperature", 0.5},
                 {"stop", {"a"}},
                 {"logit_bias", {{1, 2}}},
                 {"response_format", {{"type", "text"}}}};
    std::string text = body.dump();
    for (int64_t left = 1 + random_.below(6); left > 0; --left)
      text[static_cast<size_t>(random_.below(static_cast<int64_t>(text.size())))] =
          static_cast<char>(random_.below(256));
    Client client(server_.port());
    client.send(request_text("POST", "/v1/chat/completions", text));
    expect_clean(client.read());
  }

  void chat() {
    const json body = {{"messages", {{{"role", "user"}, {"content", long_text(40)}}}},
                       {"max_tokens", 6},
                       {"n", random_.below(3) + 1},
                       {"stream", random_.below(2) == 0}};
    expect_clean(server_.post("/v1/chat/completions", body));
  }

  bool by_chance() { return random_.below(2) == 0; }

  void complete() {
    const bool echo = by_chance();
    json body = {{"prompt", kKnown["prompt"]}, {"max_tokens", kKnown["n_predict"]}, {"echo", echo}};
    if (by_chance()) body["logprobs"] = random_.below(4);
    body["stream"] = by_chance();
    const Answer answer = server_.post("/v1/completions", body);
    expect_clean(answer);
    if (answer.status != 200) return;
    std::string text;
    if (body["stream"] == false) text = answer.json()["choices"][0]["text"];
    for (const json& event : answer.events()) {
      if (refused_ && event.contains("error")) return;
      text += event["choices"][0]["text"].get<std::string>();
    }
    // The echo shows the token that a text begins with, too.
    EXPECT_TRUE(echo ? text.ends_with(kKnown["prompt"].get<std::string>() + right_) : text == right_)
        << body << " was answered by " << answer.body;
  }

  void send_messages() {
    const json body = {
        {"messages", {{{"role", "user"}, {"content", long_text(40)}}}}, {"max_tokens", 6}, {"stream", by_chance()}};
    expect_clean(server_.post(random_.below(4) == 0 ? "/v1/messages/count_tokens" : "/v1/messages", body));
  }

  void respond() {
    expect_clean(
        server_.post("/v1/responses", {{"input", long_text(40)}, {"max_output_tokens", 6}, {"stream", by_chance()}}));
  }

  // Whatever it holds; somebody else may use the slot, or the file.
  void use_a_slot() {
    const std::string slot = "/slots/" + std::to_string(random_.below(4));
    const json file = {{"filename", std::to_string(random_.below(3))}};
    switch (random_.below(4)) {
      case 0: expect_clean(server_.post(slot + "?action=save", file)); break;
      case 1: expect_clean(server_.post(slot + "?action=restore", file)); break;
      case 2: expect_clean(server_.post(slot + "?action=erase", json::object())); break;
      default: expect_clean(server_.get("/slots"));
    }
  }

  void sparse() {
    const json body = {{"prompt", long_text(900)}, {"n_predict", 6},   {"method", "entropyinfer"},
                       {"threshold", 256},         {"kv_budget", 128}, {"base_budget", 128}};
    expect_clean(server_.post("/completion", body));
  }

  const TestServer& server_;
  const std::string right_;
  Random random_;
  bool refused_;
};

// What is held is given up soon, in memory and on disk, and found again.
ServerOptions chaos_options(const kv::TempFolder& folder) {
  ServerOptions options = test_options();
  options.metrics = true;
  options.slot_save_path = folder.file("");
  options.scheduler.cache_bytes = 64 << 20;
  options.scheduler.disk = {.folder = folder.file("texts"), .most_bytes = 64 << 20, .build = "test"};
  options.limits.defaults.generate.max_tokens = 16;  // a request that has lost its own limit ends all the same
  return options;
}

double chaos_seconds() { return static_cast<double>(setting("EI_CHAOS_SECONDS", 8)); }
uint64_t chaos_seed() { return static_cast<uint64_t>(setting("EI_CHAOS_SEED", 1)); }

// Six clients at once, for chaos_seconds(). At half of the time `halfway` is called. Returns how often they did
// something.
int64_t make_trouble(const TestServer& server, const std::string& right, bool refused,
                     const std::function<void()>& halfway) {
  const double until = now_s() + chaos_seconds();
  std::atomic<int64_t> done{0};
  std::vector<std::thread> clients;
  for (uint64_t i = 0; i < 6; ++i)
    clients.emplace_back([&, i] {
      Troublemaker one(server, right, chaos_seed() * 100 + i, refused);
      one.run(until);
      done += one.done;
    });
  std::this_thread::sleep_for(std::chrono::duration<double>(chaos_seconds() / 2));
  halfway();
  for (std::thread& client : clients) client.join();
  EXPECT_GE(done, 6 * Troublemaker::kLeast) << "seed " << chaos_seed();
  return done;
}

void expect_as_before(const TestServer& server, const std::string& right) {
  EXPECT_TRUE(server.becomes_idle()) << "seed " << chaos_seed();
  EXPECT_EQ(server.post("/completion", kKnown).json()["content"], right) << "seed " << chaos_seed();
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(ServerChaos, LeavesAServerThatAnswersAsBefore) {
  EI_NEEDS_DEVICE();
  const kv::TempFolder folder;
  const TestServer server(chaos_options(folder));
  const Backend& device = test_engine().backend();
  const std::string right = server.post("/completion", kKnown).json()["content"];
  int64_t resident = 0;
  int64_t free = 0;
  const int64_t done = make_trouble(server, right, /*refused=*/false, [&] {
    resident = resident_bytes();
    free = device.free_memory();
  });
  const int64_t more = resident_bytes() - resident;
  std::printf("%lld requests; %.1f MiB more than at half of the time\n", static_cast<long long>(done),
              static_cast<double>(more) / (1 << 20));
  if (chaos_seconds() >= 60) {
    EXPECT_LT(more, int64_t{48} << 20) << "seed " << chaos_seed();
    EXPECT_LT(free - device.free_memory(), int64_t{256} << 20) << "seed " << chaos_seed();
    const std::string figures = server.get("/metrics").body;
    for (const std::string what : {"written", "loaded"})
      EXPECT_EQ(figures.find("entropyinfer:disk_cache_" + what + "_total 0\n"), std::string::npos)
          << "nothing " << what;
  }
  expect_as_before(server, right);
}

// Lets memory run out again and again while it lives: that of the cache, and on a GPU that of everything.
class ScarceMemory {
 public:
  explicit ScarceMemory(LimitedBackend::Memory& memory) : memory_(memory), thread_([this] { work(); }) {}
  ~ScarceMemory() {
    ended_ = true;
    thread_.join();
  }
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

 private:
  void work() {
    Random random(chaos_seed());
    while (!ended_) {
      refuse(random.below(4) << 20, random.below(30));
      // Where everything is slow nobody may have asked for any in so short a time.
      const int64_t longer = memory_.refusals == 0 ? 10 : 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(longer * random.below(60)));
      refuse(-1, -1);
      std::this_thread::sleep_for(std::chrono::milliseconds(random.below(120)));
    }
  }
  // -1: nothing.
  void refuse(int64_t behind_bytes, [[maybe_unused]] int64_t behind_allocations) {
    memory_.limit = behind_bytes < 0 ? int64_t{1} << 60 : memory_.live + behind_bytes;
#ifdef EI_HAVE_CUDA
    fail_allocations(behind_allocations);
#endif
  }

  LimitedBackend::Memory& memory_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;  // the last: it begins with it
};

TEST(ServerChaos, OutlivesMemoryThatRunsOut) {
  EI_NEEDS_DEVICE();
  const auto memory = std::make_shared<LimitedBackend::Memory>();
  EngineOptions loading;
  loading.make_backend = [&](const BackendOptions& options) -> Result<std::unique_ptr<Backend>> {
    EI_ASSIGN_OR_RETURN(auto inner, create_backend(test_device(), options));
    return std::unique_ptr<Backend>(std::make_unique<LimitedBackend>(std::move(inner), memory));
  };
  const std::unique_ptr<Engine> engine = load_embedded(loading);
  ASSERT_NE(engine, nullptr);
  const kv::TempFolder folder;
  const TestServer server(chaos_options(folder), *engine);
  const std::string right = server.post("/completion", kKnown).json()["content"];
  {
    const ScarceMemory scarce(*memory);
    const int64_t done = make_trouble(server, right, /*refused=*/true, [] {});
    std::printf("%lld requests; memory ran out %lld times\n", static_cast<long long>(done),
                static_cast<long long>(memory->refusals));
  }
  EXPECT_GT(memory->refusals, 0) << "seed " << chaos_seed();
  expect_as_before(server, right);
}

}  // namespace
}  // namespace ei::server
