// The page at `/` and what it needs from the API. What it looks like is tested in a browser (browser/page_test.py).
#include "server/page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

TEST(ServerPage, IsTheFilesOfItsFolderAndNeedsNoKey) {
  ServerOptions options = test_options();
  options.keys = {"secret"};
  const TestServer server(options);
  ASSERT_GT(page_files().size(), 3u);
  for (const PageFile& file : page_files()) {
    const std::string name(file.name);
    std::ifstream stream(std::string(EI_PAGE_FOLDER "/") + name);
    std::stringstream text;
    text << stream.rdbuf();
    const Answer answer = server.get(name == "page.html" ? "/" : "/page/" + name);
    EXPECT_EQ(answer.status, 200) << name;
    EXPECT_EQ(answer.body, text.str()) << name;
    const std::string policy = answer.headers.at("content-security-policy");
    EXPECT_TRUE(policy.starts_with("default-src 'none'")) << policy;
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  }
  EXPECT_EQ(server.get("/page/../server.cpp").status, 401);
  EXPECT_EQ(server.get("/props").status, 401);
  options.page = false;
  EXPECT_EQ(TestServer(options).get("/", "Authorization: Bearer secret\r\n").status, 404);
}

TEST(ServerPage, HeadsAreTracedWhileAPromptIsReadSparsely) {
  const TestServer server;
  json body = {{"prompt", long_text(3000)}, {"n_predict", 2},       {"method", "entropyinfer"}, {"threshold", 512},
               {"base_budget", 256},        {"return_heads", true}, {"return_progress", true},  {"stream", true}};
  const std::vector<json> events = server.post("/completion", body).events();
  int64_t next = 0;
  size_t rows = 0;
  for (const json& event : events) {
    if (!event.contains("prompt_progress") || !event["prompt_progress"].contains("heads")) continue;
    const json& heads = event["prompt_progress"]["heads"];
    rows = heads["layers"].size() * heads["kv_heads"].get<size_t>();
    for (const json& column : heads["columns"]) {
      EXPECT_EQ(column["segment"], next++) << "each segment once, in order";
      ASSERT_EQ(column["entropy"].size(), rows);
      ASSERT_EQ(column["read"].size(), rows);
      for (const json& share : column["read"]) EXPECT_LE(share.get<double>(), 1.0);
    }
  }
  EXPECT_GE(next, 6);
  const json& heads = events.back()["timings"]["heads"];
  ASSERT_FALSE(heads.empty());
  EXPECT_LE(heads.size(), rows);
  EXPECT_GT(heads[0]["entropy"].get<double>(), 0.0);
  body["method"] = "full";
  body.erase("threshold");
  body.erase("base_budget");
  for (const json& event : server.post("/completion", body).events())
    EXPECT_FALSE(event["timings"].contains("heads")) << "full attention measures nothing";
}

}  // namespace
}  // namespace ei::server
