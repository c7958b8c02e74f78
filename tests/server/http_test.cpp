// What HTTP asks for beside requests and answers: HEAD, newlines between requests, and an id for whatever is refused.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <vector>

#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

TEST(ServerHttp, AHeadIsThatOfAGetAndNothingElse) {
  const TestServer server;
  for (const char* path : {"/", "/health", "/v1/models", "/slots", "/completion", "/nothing"}) {
    const Answer whole = server.get(path);
    Client client(server.port());
    client.send(request_text("HEAD", path, "") + request_text("GET", "/version", ""));
    const std::string both = client.read_until("\"version\"");
    const size_t end = both.find("\r\n\r\n") + 4;
    EXPECT_TRUE(both.starts_with("HTTP/1.1 " + std::to_string(whole.status))) << path << ": " << both;
    EXPECT_NE(both.substr(0, end).find("Content-Length: " + whole.headers.at("content-length") + "\r\n"),
              std::string::npos)
        << path << ": " << both;
    EXPECT_EQ(both.substr(end, 15), "HTTP/1.1 200 OK") << "the next answer follows at once: " << path << ": " << both;
  }
}

TEST(ServerHttp, NewlinesBehindABodyAreNoRequest) {
  const TestServer server;
  Client kept(server.port());
  for (int i = 0; i < 3; ++i) {
    kept.send(request_text("POST", "/tokenize", R"({"content": "a"})") + "\r\n");
    EXPECT_EQ(kept.read().status, 200) << i;
  }
  // Nor do they hide that the client has gone, in one piece with the body or behind it.
  const json body = {{"prompt", long_text(40000)}, {"n_predict", 1}, {"cache_prompt", false}};
  for (const bool later : {false, true}) {
    auto leaves = std::make_unique<Client>(server.port());
    leaves->send(request_text("POST", "/completion", body.dump()) + (later ? "" : "\r\n"));
    ASSERT_TRUE(server.becomes_busy());
    if (later) leaves->send(std::string(100, '\n'));
    leaves.reset();
    EXPECT_TRUE(server.becomes_idle()) << "the prompt is read on for nobody, " << later;
  }
}

TEST(ServerHttp, WhatIsRefusedHasAnIdAndALineInTheLog) {
  std::mutex mutex;
  std::vector<json> lines;
  const std::pair<std::string, int> refused[] = {
      {"GET /a HTTP/1.1\r\nX-Request-Id: mine\r\nX: " + std::string(9000, 'x') + "\r\n\r\n", 431},
      {"GET /a HTTP/1.1\r\nX: " + std::string(2000000, 'x') + "\r\n\r\n", 431},
      {"GET /a HTTP/1.1\r\nno header\r\n\r\n", 400},
      {"nothing that is known\r\n\r\n", 400},
      {"POST /a HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413}};
  {
    ServerOptions options = test_options();
    options.access_log = [&](const std::string& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(json::parse(line));
    };
    const TestServer server(options);
    for (const auto& [bytes, status] : refused) {
      Client client(server.port());
      client.send(bytes);
      const Answer answer = client.read();
      EXPECT_EQ(answer.status, status) << bytes.substr(0, 100);
      EXPECT_TRUE(answer.headers.contains("x-request-id")) << bytes.substr(0, 100);
    }
  }
  ASSERT_EQ(lines.size(), std::size(refused));
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["status"], refused[i].second) << lines[i];
  EXPECT_EQ(lines[0]["id"], "mine") << "as the client calls it";
  EXPECT_EQ(lines[0]["path"], "/a");
}

}  // namespace
}  // namespace ei::server
