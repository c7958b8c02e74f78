// A client that goes away while its prompt is read: the chunk in work is the last one, its memory comes back, and
// neighbours write what they write undisturbed. No clock decides: the computation is held while the client leaves.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/test_server.h"
#include "support/embedded_engine.h"
#include "support/guarded_backend.h"
#include "support/limited_backend.h"

namespace ei::server {
namespace {

using nlohmann::json;

// Between two steps of the model: closed, the compute thread waits there.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    stopped_ = closed_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !closed_; });
    stopped_ = false;
  }
  // Returns once somebody waits.
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    changed_.wait(lock, [&] { return stopped_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    closed_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  bool stopped_ = false;
};

// The embedded model behind a gate, its memory counted.
struct Gated {
  Gated() {
    guard->on_step = [this] { gate.pass(); };
    EngineOptions options;
    options.make_backend = [this](const BackendOptions& given) -> Result<std::unique_ptr<Backend>> {
      EI_ASSIGN_OR_RETURN(auto inner, create_backend("cpu", given));
      auto counted = std::make_unique<LimitedBackend>(std::move(inner), memory);
      return std::unique_ptr<Backend>(std::make_unique<GuardedBackend>(std::move(counted), guard));
    };
    engine = load_embedded(options);
  }
  bool memory_falls_to(int64_t bytes) const {
    for (int i = 0; i < 1000 && memory->live > bytes; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return memory->live <= bytes;
  }

  Gate gate;
  std::shared_ptr<Guard> guard = std::make_shared<Guard>();
  std::shared_ptr<LimitedBackend::Memory> memory = std::make_shared<LimitedBackend::Memory>();
  std::unique_ptr<Engine> engine;
};

// How many requests' clients went before their answer was complete.
class Gone {
 public:
  void note(const std::string& line) {
    const std::lock_guard lock(mutex_);
    count_ += json::parse(line).contains("gone") ? 1 : 0;
    changed_.notify_all();
  }
  bool wait_for_one() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return count_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

int64_t tokens_read(const TestServer& server) {
  const std::string name = "\nllamacpp:prompt_tokens_total ";
  const std::string figures = server.get("/metrics").body;
  return std::stoll(figures.substr(figures.find(name) + name.size()));
}

json neighbour_request(int seed, int tokens) {
  return {{"prompt", long_text(20, seed)}, {"n_predict", tokens},   {"ignore_eos", true},
          {"cache_prompt", false},         {"return_tokens", true}, {"n_probs", 1}};
}

json words_of(const json& answer) { return {answer["tokens"], answer["completion_probabilities"]}; }

TEST(ServerLeaving, TheChunkOfAClientThatGoesAwayIsItsLastAndNobodyElseNoticesAnything) {
  constexpr int64_t kChunk = 64;  // the smallest: no time is enough for more
  Gated model;
  ASSERT_NE(model.engine, nullptr);
  Gone gone;
  ServerOptions options = test_options();
  options.scheduler.slots = 3;
  options.scheduler.chunk_s = options.scheduler.shared_chunk_s = 1e-6;
  options.metrics = true;
  options.access_log = [&](const std::string& line) { gone.note(line); };
  const TestServer server(options, *model.engine);
  const json requests[2] = {neighbour_request(5, 60), neighbour_request(6, 20)};
  json alone[2];
  for (int i = 0; i < 2; ++i) alone[i] = server.post("/completion", requests[i]).json();
  ASSERT_EQ(alone[0]["tokens"].size(), 60u) << alone[0];
  const json leaving = {{"prompt", long_text(1500)}, {"n_predict", 4}, {"stream", true}, {"return_progress", true}};
  const int64_t prompt = server.post("/tokenize", {{"content", leaving["prompt"]}}).json()["tokens"].size();
  const int64_t bytes_before = model.memory->live;
  const int64_t read_before = tokens_read(server);

  json together[2];
  std::thread neighbours[2];
  const auto ask = [&](int i) { together[i] = server.post("/completion", requests[i]).json(); };
  auto client = std::make_unique<Client>(server.port());
  client->send(request_text("POST", "/completion", leaving.dump()));
  client->read_until("prompt_progress");
  neighbours[0] = std::thread(ask, 0);
  client->read_until("\"processed\":" + std::to_string(2 * kChunk));
  model.gate.close();
  int64_t processed = 0;
  for (const json& slot : server.get("/slots").json())
    if (slot.value("n_prompt_tokens", int64_t{0}) > prompt / 2) processed = slot["n_prompt_tokens_processed"];
  EXPECT_GE(processed, 2 * kChunk);
  ASSERT_LT(processed + kChunk, prompt / 2) << "the test is to hold it in the middle of its prompt";
  EXPECT_GT(model.memory->live, bytes_before);
  neighbours[1] = std::thread(ask, 1);
  client.reset();
  const bool noticed = gone.wait_for_one();
  EXPECT_EQ(server.get("/health").status, 200) << "behind it, on the same thread: the request is cancelled by then";
  model.gate.open();
  for (std::thread& thread : neighbours) thread.join();
  EXPECT_TRUE(noticed);
  EXPECT_TRUE(server.becomes_idle());

  const int64_t of_neighbours =
      together[0]["tokens_evaluated"].get<int64_t>() + together[1]["tokens_evaluated"].get<int64_t>();
  const int64_t read = tokens_read(server) - read_before - of_neighbours;
  EXPECT_GE(read, processed);
  EXPECT_LE(read, processed + kChunk) << "of " << prompt << ": a chunk began behind its client's back";
  EXPECT_TRUE(model.memory_falls_to(bytes_before)) << model.memory->live << " bytes of " << bytes_before;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(words_of(together[i]), words_of(alone[i]));
}

}  // namespace
}  // namespace ei::server
