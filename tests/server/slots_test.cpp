// Slots are saved beside what is computed: nobody waits for a file, so many wait for theirs and no more, and a file
// that nobody wants any more is given up. No clock decides: the file is held while the others are asked.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/test_server.h"
#include "support/embedded_engine.h"
#include "support/limited_backend.h"
#include "support/temp_folder.h"

namespace ei::server {
namespace {

using nlohmann::json;

template <typename Condition>
bool comes_soon(const Condition& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return condition();
}

// A model whose rows can be held back from files. Slot 0 holds a text.
struct HeldRows {
  HeldRows() {
    memory->on_read = [this] {
      ++reads;
      while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a slow disk
    };
    EngineOptions model;
    model.make_backend = [this](const BackendOptions& given) -> Result<std::unique_ptr<Backend>> {
      EI_ASSIGN_OR_RETURN(auto inner, create_backend("cpu", given));
      return std::unique_ptr<Backend>(std::make_unique<LimitedBackend>(std::move(inner), memory));
    };
    engine = load_embedded(model);
    options.slot_save_path = folder.file("");
    options.scheduler.slots = 2;
    options.access_log = [this](const std::string& line) {
      const bool left = json::parse(line).contains("gone");
      gone += left ? 1 : 0;
    };
  }
  ~HeldRows() { held = false; }

  void start() {
    server = std::make_unique<TestServer>(options, *engine);
    ASSERT_EQ(server->post("/completion", text(0)).status, 200);
  }
  static json text(int slot) { return {{"prompt", long_text(600)}, {"n_predict", 1}, {"id_slot", slot}}; }
  // Asks to save slot 0, and returns without the answer.
  std::unique_ptr<Client> save(const std::string& name) const {
    auto client = std::make_unique<Client>(server->port());
    client->send(request_text("POST", "/slots/0?action=save", json{{"filename", name}}.dump()));
    return client;
  }
  bool has(const std::string& name) const { return std::filesystem::exists(folder.file(name)); }

  kv::TempFolder folder;
  std::atomic<bool> held{false};
  std::atomic<int> reads{0};
  std::atomic<int> gone{0};  // clients that left before their answer
  std::shared_ptr<LimitedBackend::Memory> memory = std::make_shared<LimitedBackend::Memory>();
  std::unique_ptr<Engine> engine;
  ServerOptions options = test_options();
  std::unique_ptr<TestServer> server;
};

TEST(ServerSlots, NobodyWaitsForAFileThatIsWritten) {
  HeldRows rows;
  rows.start();
  rows.held = true;
  const auto saving = rows.save("one.bin");
  ASSERT_TRUE(comes_soon([&] { return rows.reads > 0; }));
  std::atomic<int> status{0};
  std::thread neighbour([&] {
    status = rows.server->post("/completion", {{"prompt", "a b"}, {"n_predict", 4}, {"id_slot", 1}}).status;
  });
  EXPECT_TRUE(comes_soon([&] { return status == 200; })) << "it waits for the file";
  EXPECT_FALSE(rows.has("one.bin"));
  rows.held = false;
  neighbour.join();
  EXPECT_GT(saving->read().json()["n_saved"], 100);
  // What was saved is what the slot held when its turn came.
  EXPECT_EQ(rows.server->post("/slots/1?action=restore", {{"filename", "one.bin"}}).status, 200);
  EXPECT_EQ(rows.server->post("/completion", rows.text(1)).json()["timings"]["prompt_n"], 1);
}

TEST(ServerSlots, SoManyWaitAndTheNextIsToldToComeAgain) {
  HeldRows rows;
  rows.options.scheduler.queue = 2;
  rows.start();
  rows.held = true;
  std::vector<std::unique_ptr<Client>> saving;
  saving.push_back(rows.save("at-work"));
  ASSERT_TRUE(comes_soon([&] { return rows.reads > 0; }));
  saving.push_back(rows.save("first"));
  saving.push_back(rows.save("second"));
  const auto refused = [&] {
    Client client(rows.server->port());
    client.send(request_text("POST", "/slots/1?action=erase", "{}"));
    for (int i = 0; i < 40 && !client.heard(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return client.heard() ? client.read() : Answer{};
  }();
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  rows.held = false;
  for (const auto& client : saving) EXPECT_EQ(client->read().status, 200);
  EXPECT_EQ(rows.server->post("/slots/1?action=erase", json::object()).status, 200);
}

TEST(ServerSlots, AFileWhoseClientHasGoneIsGivenUpAndSoIsOneThatWaits) {
  HeldRows rows;
  rows.start();
  rows.held = true;
  auto at_work = rows.save("at-work");
  ASSERT_TRUE(comes_soon([&] { return rows.reads > 0; }));
  auto waiting = rows.save("waiting");
  const auto stays = rows.save("stays");
  EXPECT_EQ(rows.server->get("/health").status, 200);
  at_work.reset();
  waiting.reset();
  ASSERT_TRUE(comes_soon([&] { return rows.gone == 2; }));
  rows.held = false;
  EXPECT_EQ(stays->read().status, 200);
  EXPECT_TRUE(rows.has("stays"));
  EXPECT_FALSE(rows.has("at-work"));
  EXPECT_FALSE(rows.has("waiting"));
}

TEST(ServerSlots, AFileIsGivenUpWhenTheServerStops) {
  HeldRows rows;
  rows.start();
  rows.held = true;
  const auto saving = rows.save("one.bin");
  ASSERT_TRUE(comes_soon([&] { return rows.reads > 0; }));
  std::thread stopping([&] { rows.server.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  rows.held = false;
  stopping.join();
  EXPECT_FALSE(rows.has("one.bin"));
}

}  // namespace
}  // namespace ei::server
