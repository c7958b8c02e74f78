// Held texts on disk: a server that begins anew finds them, and answers the same.
#include <gtest/gtest.h>

#include <filesystem>
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

bool some_file(const kv::TempFolder& folder) {
  for (int i = 0; i < 1000; ++i) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder.file("texts"), ignored))
      if (entry.path().extension() == ".eikv") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

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

}  // namespace
}  // namespace ei::server
