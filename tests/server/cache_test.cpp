// What is held for the next question: who may use it, what goes first, what /slots and /metrics tell.
#include <gtest/gtest.h>

#include <thread>

#include "server/test_server.h"
#include "support/temp_folder.h"

namespace ei::server {
namespace {

using nlohmann::json;

json completion(const std::string& prompt, const json& more = json::object()) {
  json body = {{"prompt", prompt}, {"n_predict", 4}, {"ignore_eos", true}};
  body.update(more);
  return body;
}

std::vector<int> tokens_of(const TestServer& server, const std::string& text) {
  return server.post("/tokenize", {{"content", text}, {"add_special", true}}).json()["tokens"];
}

int64_t held_figure(const TestServer& server, const std::string& name) {
  const std::string text = server.get("/metrics").body;
  const size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 2));
}

TEST(ServerCache, APromptBeginsWithWhatASessionThatStillRunsHasRead) {
  const TestServer server;
  const std::string text = long_text(300);
  const json fresh = server.post("/completion", completion(text + " who", {{"cache_prompt", false}})).json();
  Client first(server.port());
  first.send(request_text("POST", "/completion",
                          completion(text + " where", {{"n_predict", 20000}, {"stream", true}}).dump()));
  first.read_until("\"content\":");  // its prompt has been read, its answer is being written
  const json second = server.post("/completion", completion(text + " who")).json();
  const json slots = server.get("/slots").json();
  bool runs = false;
  for (const json& slot : slots) runs = runs || slot["is_processing"].get<bool>();
  EXPECT_TRUE(runs) << "the first was to run still";
  EXPECT_GT(second["timings"]["cache_n"], 250);
  EXPECT_LT(second["timings"]["prompt_n"], 8);
  EXPECT_EQ(second["content"], fresh["content"]);
}

TEST(ServerCache, AnEditInTheMiddleKeepsEverythingBeforeIt) {
  const TestServer server;
  const std::string before = long_text(300, 1);
  const std::string after = long_text(300, 2);
  const std::string text = before + " lantern " + after;
  const std::string edited = before + " harbour " + after;
  server.post("/completion", completion(text));
  const std::vector<int> first = tokens_of(server, text);
  const std::vector<int> second = tokens_of(server, edited);
  const auto shared = std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first - first.begin();
  ASSERT_GT(shared, 250);
  ASSERT_LT(shared, static_cast<int64_t>(first.size()) - 250);
  const json answer = server.post("/v1/completions", {{"prompt", edited}, {"max_tokens", 4}}).json();
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], shared);
  const json fresh =
      server.post("/v1/completions", {{"prompt", edited}, {"max_tokens", 4}, {"cache_prompt", false}}).json();
  EXPECT_EQ(fresh["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(answer["choices"][0]["text"], fresh["choices"][0]["text"]);
  // Both endings are held, the beginning once.
  const json cache = server.get("/slots").json()[0]["cache"];
  EXPECT_EQ(cache["texts"], 2);
  EXPECT_LT(cache["tokens"], static_cast<int64_t>(first.size() + second.size()) - shared + 16);
}

TEST(ServerCache, WhatWasNotUsedLongestGoesAndSlotsTellWhatIsHeld) {
  ServerOptions options = test_options();
  options.scheduler.slots = 1;
  const auto cached = [](const TestServer& server, int seed) {
    return server.post("/completion", completion(long_text(300, seed))).json()["timings"]["cache_n"].get<int>();
  };
  int64_t one = 0;
  {
    const TestServer server(options);
    cached(server, 1);
    const json slot = server.get("/slots").json()[0];
    one = slot["cache"]["bytes"];
    EXPECT_GT(slot["n_held"], 300);
    EXPECT_EQ(slot["held_bytes"], one);
    EXPECT_EQ(slot["cache"]["texts"], 1);
    EXPECT_EQ(slot["cache"]["most_bytes"], options.scheduler.cache_bytes);
  }
  options.scheduler.cache_bytes = one * 5 / 2;
  const TestServer server(options);
  cached(server, 1);
  cached(server, 2);
  EXPECT_GT(cached(server, 1), 300);
  EXPECT_LT(cached(server, 3), 5);  // no room for three: the second goes
  const json cache = server.get("/slots").json()[0]["cache"];
  EXPECT_LE(cache["bytes"], options.scheduler.cache_bytes);
  EXPECT_GT(cached(server, 1), 300);
  EXPECT_LT(cached(server, 2), 5);
}

TEST(ServerCache, LossyReadingNeverServesAsAnExactPrefix) {
  const TestServer server;
  const std::string text = long_text(700);
  const json sparse = {{"method", "entropyinfer"}, {"threshold", 256}, {"base_budget", 128}, {"kv_budget", 128}};
  const auto cached = [&](const std::string& prompt, const json& more) {
    return server.post("/completion", completion(prompt, more)).json()["timings"]["cache_n"].get<int>();
  };
  EXPECT_EQ(cached(text, sparse), 0);
  EXPECT_GT(cached(text, sparse), 500) << "the same way of reading may go on with it";
  EXPECT_EQ(cached(text, json::object()), 0);
  json wider = sparse;
  wider["base_budget"] = 256;
  EXPECT_EQ(cached(text, wider), 0) << "another budget, other values";
  // Tokens that were generated over a compressed cache, or read some pages of it, are not held.
  for (const json& lossy :
       {json{{"method", "snapkv"}, {"kv_budget", 64}, {"kv_window", 16}}, json{{"method", "quest"}, {"kv_read", 64}}}) {
    json body = completion(text + " " + lossy["method"].get<std::string>(), lossy);
    body["n_predict"] = 24;
    body["return_tokens"] = true;
    const Answer answered = server.post("/completion", body);
    ASSERT_EQ(answered.status, 200) << answered.body;
    const json answer = answered.json();
    std::vector<int> prompt = tokens_of(server, body["prompt"]);
    const auto read = static_cast<int>(prompt.size());
    for (const json& token : answer["tokens"]) prompt.push_back(token);
    prompt.push_back(5);
    const json next = server.post("/completion", {{"prompt", prompt}, {"n_predict", 1}}).json();
    EXPECT_GT(next["timings"]["cache_n"], 500) << lossy;
    EXPECT_LE(next["timings"]["cache_n"], read + 1) << lossy;
  }
}

TEST(ServerCache, ASlotThatIsLargerThanTheCacheIsNotRestored) {
  const kv::TempFolder folder;
  ServerOptions options = test_options();
  options.slot_save_path = folder.file("");
  const json body = {{"prompt", long_text(600)}, {"n_predict", 1}, {"id_slot", 1}};
  {
    const TestServer server(options);
    ASSERT_EQ(server.post("/completion", body).status, 200);
    ASSERT_GT(server.post("/slots/1?action=save", {{"filename", "long"}}).json()["n_saved"], 500);
  }
  options.scheduler.cache_bytes = 1 << 20;
  const TestServer server(options);
  const json small = {{"prompt", "a b c d e f"}, {"n_predict", 1}, {"id_slot", 1}};
  ASSERT_EQ(server.post("/completion", small).status, 200);
  const auto held = [&] { return server.get("/slots").json()[1]["n_held"].get<int>(); };
  const int before = held();
  ASSERT_GT(before, 0);
  const Answer answer = server.post("/slots/1?action=restore", {{"filename", "long"}});
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_EQ(answer.json()["error"]["param"], "filename") << answer.body;
  EXPECT_NE(answer.body.find("--cache-ram"), std::string::npos) << answer.body;
  EXPECT_EQ(held(), before) << "what the slot held is there";
}

TEST(ServerCache, TheDiskHasFiguresOfItsOwn) {
  const kv::TempFolder folder;
  ServerOptions options = test_options();
  options.metrics = true;
  options.scheduler.disk.folder = folder.file("texts");
  options.scheduler.disk.build = "test";
  for (int round = 0; round < 2; ++round) {
    const TestServer server(options);
    const json timings = server.post("/completion", completion(long_text(500))).json()["timings"];
    for (int i = 0; i < 1000 && held_figure(server, "entropyinfer:disk_cache_texts") == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(held_figure(server, "entropyinfer:disk_cache_texts"), 1);
    EXPECT_EQ(held_figure(server, "entropyinfer:disk_cache_written_total"), 1 - round);
    EXPECT_EQ(held_figure(server, "entropyinfer:disk_cache_loaded_total"), round);
    EXPECT_EQ(held_figure(server, "entropyinfer:disk_cache_failed_total"), 0);
    EXPECT_EQ(timings["prompt_n"] == 1, round == 1);
    const json cache = server.get("/slots").json()[0]["cache"];
    EXPECT_EQ(cache["disk_texts"], 1);
    EXPECT_EQ(cache["disk_bytes"], held_figure(server, "entropyinfer:disk_cache_bytes"));
    EXPECT_EQ(cache["disk_most_bytes"], options.scheduler.disk.most_bytes);
    EXPECT_GT(cache["disk_bytes"], 500 * 100);
  }
}

}  // namespace
}  // namespace ei::server
