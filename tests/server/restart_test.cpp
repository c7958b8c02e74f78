// Held texts on disk: a server that begins anew finds them, and answers the same.
#include <gtest/gtest.h>

#include <condition_variable>
#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "server/test_server.h"
#include "support/temp_folder.h"

namespace ei::server {
namespace {

using nlohmann::json;

ServerOptions with_folder(const kv::TempFolder& folder) {
  ServerOptions options = test_options();
  options.scheduler.disk.folder = folder.file("texts");
  options.scheduler.disk.build = "test";
  return options;
}

// Those that are there once there are so many.
std::vector<std::string> wait_for_files(const kv::TempFolder& folder, size_t count) {
  std::vector<std::string> paths;
  for (int i = 0; i < 1000 && paths.size() < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    paths.clear();
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder.file("texts"), ignored))
      if (entry.path().extension() == ".eikv") paths.push_back(entry.path().string());
  }
  return paths;
}

bool some_file(const kv::TempFolder& folder) { return !wait_for_files(folder, 1).empty(); }

// A log that takes no line until it is let go: whoever writes one waits.
class StuckLog {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return free_; });
  }
  bool is_reached() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return reached_; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  bool free_ = false;
};

TEST(ServerRestart, FindsWhatAFormerServerReadAndAnswersTheSame) {
  const kv::TempFolder folder;
  const json request = {{"prompt", long_text(1500)}, {"n_predict", 32}, {"ignore_eos", true}};
  json first;
  {
    const TestServer server(with_folder(folder));
    first = server.post("/completion", request).json();
    ASSERT_TRUE(some_file(folder));
  }
  const TestServer server(with_folder(folder));
  const json again = server.post("/completion", request).json();
  EXPECT_EQ(again["content"], first["content"]);
  EXPECT_EQ(again["timings"]["prompt_n"], 1) << "all but the last token was to be found";
  json sparse = request;
  sparse["method"] = "entropyinfer";
  EXPECT_EQ(server.post("/completion", sparse).json()["timings"]["cache_n"], 0);
  json edited = request;  // in its last word: everything before it is found
  edited["prompt"] = long_text(1499) + " lantern";
  EXPECT_GT(server.post("/completion", edited).json()["timings"]["cache_n"], 1000);
}

TEST(ServerRestart, MemoryThatHoldsNothingIsNoReasonToReadAgain) {
  const kv::TempFolder folder;
  ServerOptions options = with_folder(folder);
  options.scheduler.slots = 1;
  options.scheduler.cache_bytes = int64_t{8} << 20;
  const TestServer server(options);
  const json first = {{"prompt", long_text(900, 3)}, {"n_predict", 8}, {"ignore_eos", true}};
  const json second = {{"prompt", long_text(900, 4)}, {"n_predict", 8}, {"ignore_eos", true}};
  const json answer = server.post("/completion", first).json();
  ASSERT_TRUE(some_file(folder));
  server.post("/completion", second).json();  // takes the other's place in memory
  const json again = server.post("/completion", first).json();
  EXPECT_EQ(again["content"], answer["content"]);
  EXPECT_GT(again["timings"]["cache_n"], 800);
  EXPECT_LE(server.get("/slots").json()[0]["cache"]["bytes"], options.scheduler.cache_bytes);
}

TEST(ServerRestart, ATextTooLargeToBeHeldIsReadFromItsFile) {
  const kv::TempFolder folder;
  ServerOptions options = with_folder(folder);
  options.scheduler.cache_bytes = 0;
  const TestServer server(options);
  const json request = {{"prompt", long_text(900, 5)}, {"n_predict", 8}, {"ignore_eos", true}};
  const json answer = server.post("/completion", request).json();
  ASSERT_TRUE(some_file(folder));
  const json again = server.post("/completion", request).json();
  EXPECT_EQ(again["content"], answer["content"]);
  EXPECT_EQ(again["timings"]["prompt_n"], 1);
  EXPECT_EQ(server.get("/slots").json()[0]["cache"]["bytes"], 0);
}

TEST(ServerRestart, WhoWaitsForTheDiskKeepsNobodyBusyAndItsTimePasses) {
  const kv::TempFolder folder;
  const json request = {{"prompt", long_text(900, 6)}, {"n_predict", 8}, {"ignore_eos", true}};
  json other = request;
  other["prompt"] = long_text(400, 7);
  json answer;
  {
    const TestServer server(with_folder(folder));
    answer = server.post("/completion", request).json();
    const std::vector<std::string> first = wait_for_files(folder, 1);
    server.post("/completion", other);
    for (const std::string& path : wait_for_files(folder, 2)) {
      if (path == first.at(0)) continue;
      std::filesystem::remove(path);
      std::filesystem::create_directory(path);  // the other text cannot be written
    }
  }
  const auto log = std::make_shared<StuckLog>();
  ServerOptions options = with_folder(folder);
  options.scheduler.disk.log = [log](const std::string&) { log->wait(); };
  const TestServer server(options);
  const std::unique_ptr<StuckLog, void (*)(StuckLog*)> freed(log.get(), [](StuckLog* stuck) { stuck->let_go(); });
  server.post("/completion", other);
  ASSERT_TRUE(log->is_reached()) << "the thread of the files was to wait";
  Client waits(server.port());
  waits.send(request_text("POST", "/completion", request.dump()));
  json late = request;
  late["timeout"] = 0.2;
  const Answer refused = server.post("/completion", late);
  EXPECT_NE(refused.body.find("time was over"), std::string::npos) << refused.body;
  const std::clock_t before = std::clock();  // of all threads
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.25);
  EXPECT_FALSE(waits.heard());
  log->let_go();
  const json found = waits.read().json();
  EXPECT_EQ(found["content"], answer["content"]);
  EXPECT_EQ(found["timings"]["prompt_n"], 1);
}

}  // namespace
}  // namespace ei::server
