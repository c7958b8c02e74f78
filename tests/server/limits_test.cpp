// What a request may take before it is known to be worth it, and what the operator lets it take.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "server/test_server.h"

namespace ei::server {
namespace {

using nlohmann::json;

std::string head_of(const std::string& path, int64_t body_bytes, const std::string& headers = {}) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body_bytes) + "\r\n" +
         headers + "\r\n";
}

TEST(ServerLimits, WhoHasNoKeyIsToldSoBeforeTheBody) {
  std::mutex mutex;
  std::vector<json> lines;
  ServerOptions options = test_options();
  options.keys = {"secret"};
  options.http.read_s = 2;
  options.access_log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(json::parse(line));
  };
  {
    const TestServer server(options);
    for (const char* path : {"/completion", "/texts", "/nothing", "/health"}) {
      Client client(server.port());
      client.send(head_of(path, int64_t{60} << 20));
      const Answer answer = client.read();
      EXPECT_EQ(answer.status, 401) << path;
      EXPECT_TRUE(answer.headers.contains("www-authenticate")) << path;
    }
    Client polite(server.port());
    polite.send(head_of("/completion", 100, "Expect: 100-continue\r\n"));
    EXPECT_EQ(polite.read().status, 401) << "and not 100";
    Client knows(server.port());
    knows.send(head_of("/texts", 1, "Authorization: Bearer secret\r\nExpect: 100-continue\r\n"));
    EXPECT_NE(knows.read_until("\r\n\r\n").find("100 Continue"), std::string::npos);
    // A request without a body costs nobody the connection.
    Client kept(server.port());
    for (int i = 0; i < 2; ++i) {
      kept.send(request_text("GET", "/v1/models", ""));
      EXPECT_EQ(kept.read().status, 401) << i;
    }
    kept.send(request_text("GET", "/v1/models", "", "Authorization: Bearer secret\r\n"));
    EXPECT_EQ(kept.read().status, 200);
  }
  const std::lock_guard lock(mutex);
  ASSERT_GE(lines.size(), 8u) << "those that were turned away are in the log, too";
  EXPECT_EQ(lines[0]["status"], 401);
  EXPECT_EQ(lines[0]["path"], "/completion");
}

TEST(ServerLimits, BodiesWithoutAKeyTakeNoMemory) {
  ServerOptions options = test_options();
  options.keys = {"secret"};
  const TestServer server(options);
  const int64_t before = resident_bytes();
  std::vector<std::unique_ptr<Client>> clients;
  const std::string part(int64_t{4} << 20, ' ');
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(head_of("/completion", int64_t{60} << 20) + part);
  }
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_LT(resident_bytes() - before, int64_t{12} << 20) << "of 32 MiB that were sent";
}

TEST(ServerLimits, AllBodiesTogetherHaveSoMuchRoomAndShortOnesAlwaysFindSome) {
  ServerOptions options = test_options();
  options.http.body_bytes = 1 << 20;
  options.http.all_body_bytes = 1 << 20;
  const TestServer server(options);
  const std::string most(900 << 10, 'x');
  const std::string whole = request_text("POST", "/texts", most);
  std::unique_ptr<Client> first;
  Answer refused;
  for (int i = 1; i < 100 && (refused.status != 503 || first->heard());
       ++i) {  // once it is the first one that has room
    first = std::make_unique<Client>(server.port());
    first->send(whole.substr(0, whole.size() - 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * i));
    Client second(server.port());
    second.send(whole);
    refused = second.read();
  }
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_EQ(refused.json()["error"]["type"], "unavailable_error") << refused.body;
  EXPECT_EQ(refused.headers["retry-after"], "1");
  Client chunked(server.port());
  chunked.send("POST /texts HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n60000\r\n" + most.substr(0, 0x60000));
  EXPECT_EQ(chunked.read().status, 503) << "nor in chunks";
  EXPECT_EQ(server.post("/completion", {{"prompt", "a b c"}, {"n_predict", 1}}).status, 200);
  first->send(whole.substr(whole.size() - 1));
  EXPECT_EQ(first->read().status, 200);
  // What was read, or whose client has gone, takes no room any more.
  for (const bool goes : {false, true}) {
    Answer answer;
    for (int i = 0; i < 500 && answer.status != 200; ++i) {
      if (goes) Client(server.port()).send(whole.substr(0, whole.size() - 1));
      Client again(server.port());
      again.send(whole);
      answer = again.read();
    }
    EXPECT_EQ(answer.status, 200) << goes;
  }
}

// Neither is part of a header or of the body.
TEST(ServerLimits, WhatIsBesideABodyTakesLittleMemory) {
  const TestServer server;
  const std::string part(int64_t{1} << 20, 'a');
  for (const char* beside : {"1;a=", "0\r\nX: "}) {
    Client client(server.port());
    client.send("POST /completion HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(beside));
    const int64_t before = resident_bytes();
    for (int i = 0; i < 48; ++i) client.send(part);
    EXPECT_LT(resident_bytes() - before, int64_t{12} << 20) << "of 48 MiB that were sent: " << beside;
    const Answer answer = client.read();
    EXPECT_EQ(answer.status, 431) << beside;
    EXPECT_EQ(answer.headers.at("connection"), "close") << beside;
  }
  Client small(server.port());
  small.send(
      "POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n10;a=b\r\n{\"content\": \"a\"}\r\n0\r\nX: "
      "y\r\n\r\n");
  EXPECT_EQ(small.read().status, 200);
}

TEST(ServerLimits, AllHeadsTogetherHaveSoMuchRoomAndShortOnesAlwaysFindSome) {
  ServerOptions options = test_options();
  options.keys = {"secret"};
  options.http.all_head_bytes = 1 << 20;
  const TestServer server(options);
  std::string most = "GET /v1/models HTTP/1.1\r\n";
  for (int i = 0; i < 90; ++i) most += "X-" + std::to_string(i) + ": " + std::string(8000, 'x') + "\r\n";
  auto first = std::make_unique<Client>(server.port());
  first->send(most);
  Answer refused;
  for (int i = 0; i < 100 && refused.status != 503; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Client second(server.port());
    second.send(most + "\r\n");
    refused = second.read();
  }
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_EQ(refused.headers["retry-after"], "1");
  EXPECT_EQ(server.get("/v1/models", "Authorization: Bearer secret\r\n").status, 200);
  first.reset();  // what has gone takes no room any more
  Answer answer;
  for (int i = 0; i < 100 && answer.status != 401; ++i) {
    Client again(server.port());
    again.send(most + "\r\n");
    answer = again.read();
  }
  EXPECT_EQ(answer.status, 401);
}

TEST(ServerLimits, TheOperatorsTimeEndsARequestWhateverItSays) {
  ServerOptions options = test_options();
  options.limits.most_s = 0.3;
  const TestServer server(options);
  const json endless = {{"prompt", "a b"}, {"ignore_eos", true}};
  for (const double asked : {0.0, 1000.0}) {
    json body = endless;
    if (asked > 0) body["timeout"] = asked;
    const json answer = server.post("/completion", body).json();
    EXPECT_EQ(answer["stop_type"], "limit") << answer;
    EXPECT_LT(answer["tokens_predicted"], 100000) << asked;
  }
  const Answer late = server.post("/completion", {{"prompt", long_text(8000)}});
  EXPECT_EQ(late.status, 504) << late.body;
  EXPECT_EQ(late.json()["error"]["type"], "timeout_error") << late.body;
  EXPECT_NE(late.body.find("time was over"), std::string::npos) << late.body;
}

// As in llama-server: a limit for completions in an editor, which wants whole lines.
TEST(ServerLimits, APredictionThatTakesTooLongEndsWithALine) {
  const TestServer server;
  json body = {{"prompt", "a b"}, {"n_predict", 60}, {"ignore_eos", true}, {"grammar", "root ::= (\"ab\\n\")+"}};
  EXPECT_EQ(server.post("/completion", body).json()["tokens_predicted"], 60);
  body["t_max_predict_ms"] = 1e9;
  EXPECT_EQ(server.post("/completion", body).json()["tokens_predicted"], 60);
  body["t_max_predict_ms"] = 1;
  const json cut = server.post("/completion", body).json();
  EXPECT_LT(cut["tokens_predicted"], 60) << cut;
  EXPECT_EQ(cut["stop_type"], "limit");
  EXPECT_TRUE(cut["content"].get<std::string>().ends_with('\n')) << cut["content"];
  body["grammar"] = "root ::= (\"ab\")+";
  EXPECT_EQ(server.post("/completion", body).json()["tokens_predicted"], 60) << "without a line's end it goes on";
  body["t_max_predict_ms"] = "soon";
  EXPECT_EQ(server.post("/completion", body).json()["error"]["param"], "t_max_predict_ms");
}

// CORS keeps a page from the answer, not from what it asked for.
TEST(ServerLimits, WithoutKeysNoPageOfOthersMayChangeAnythingOrBringItsOwnName) {
  ServerOptions options = test_options();
  const auto asked = [](const TestServer& server, const std::string& line, const std::string& headers) {
    Client client(server.port());
    client.send(line + " HTTP/1.1\r\n" + headers + "Content-Length: 0\r\n\r\n");
    return client.read();
  };
  const std::string erase = "POST /slots/0?action=erase";
  const std::string evil = "Host: localhost\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n";
  {
    const TestServer server(options);
    const Answer refused = asked(server, erase, evil);
    EXPECT_EQ(refused.status, 403) << refused.body;
    EXPECT_EQ(refused.json()["error"]["type"], "permission_error") << refused.body;
    EXPECT_NE(refused.body.find("--cors-origin"), std::string::npos) << refused.body;
    EXPECT_EQ(asked(server, erase, "Host: localhost\r\nOrigin: http://localhost\r\n").status, 200) << "its own page";
    EXPECT_EQ(asked(server, erase, "Host: localhost\r\n").status, 200) << "no page";
    EXPECT_EQ(asked(server, "GET /v1/models", "Host: evil.example\r\n").status, 403) << "the name may be anybody's";
    EXPECT_EQ(asked(server, "GET /", "Host: evil.example:8080\r\n").status, 403);
    EXPECT_EQ(asked(server, "GET /health", "Host: evil.example\r\n").status, 200) << "tells nothing";
    EXPECT_EQ(asked(server, "GET /v1/models", "Host: 127.0.0.1:8080\r\n").status, 200);
    EXPECT_EQ(asked(server, "GET /v1/models", "").status, 200);
  }
  options.http.origins = {"http://evil.example"};
  EXPECT_EQ(asked(TestServer(options), erase, evil).status, 200) << "the operator's word";
  options.http.origins.clear();
  options.keys = {"secret"};
  const TestServer server(options);
  EXPECT_EQ(asked(server, erase, evil).status, 401);
  EXPECT_EQ(asked(server, erase, evil + "Authorization: Bearer secret\r\n").status, 200) << "whoever has the key";
  EXPECT_EQ(asked(server, "GET /v1/models", "Host: a.example\r\nAuthorization: Bearer secret\r\n").status, 200);
}

TEST(ServerLimits, OtherOriginsPagesMayAskWhereTheOperatorNamesThem) {
  ServerOptions options = test_options();
  options.keys = {"secret"};
  options.http.origins = {"https://one.example", "http://localhost:3000"};
  const TestServer server(options);
  const auto preflight = [](const TestServer& of, const std::string& origin) {
    Client client(of.port());
    client.send(request_text("OPTIONS", "/v1/chat/completions", "",
                             "Origin: " + origin +
                                 "\r\nAccess-Control-Request-Method: POST\r\n"
                                 "Access-Control-Request-Headers: authorization, content-type\r\n"));
    return client.read();
  };
  const Answer asked = preflight(server, "https://one.example");
  EXPECT_EQ(asked.status, 200) << "browsers ask without the key";
  EXPECT_EQ(asked.headers.at("access-control-allow-origin"), "https://one.example");
  EXPECT_EQ(asked.headers.at("access-control-allow-headers"), "authorization, content-type");
  EXPECT_NE(asked.headers.at("access-control-allow-methods").find("POST"), std::string::npos);
  EXPECT_EQ(asked.headers.at("vary"), "Origin");
  EXPECT_FALSE(asked.headers.contains("access-control-allow-credentials"));
  const std::string key = "Authorization: Bearer secret\r\n";
  Answer answer = server.get("/v1/models", key + "Origin: http://localhost:3000\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "http://localhost:3000");
  answer = server.get("/v1/models", "Origin: http://localhost:3000\r\n");
  EXPECT_EQ(answer.status, 401);
  EXPECT_TRUE(answer.headers.contains("access-control-allow-origin")) << "or the page could not read why";
  Client stream(server.port());
  stream.send(request_text("POST", "/completion", R"({"prompt":"a","n_predict":1,"stream":true})",
                           key + "Origin: https://one.example\r\n"));
  EXPECT_EQ(stream.read().headers.at("access-control-allow-origin"), "https://one.example");
  for (const char* other : {"https://two.example", "https://one.example.evil.example", "http://one.example", "null"}) {
    const Answer refused = preflight(server, other);
    EXPECT_EQ(refused.status, 401) << other;
    EXPECT_FALSE(refused.headers.contains("access-control-allow-origin")) << other;
    EXPECT_FALSE(
        server.get("/v1/models", key + "Origin: " + other + "\r\n").headers.contains("access-control-allow-origin"));
  }
  options.http.origins = {"*"};
  const TestServer open(options);
  const Answer any = preflight(open, "https://two.example");
  EXPECT_EQ(any.headers.at("access-control-allow-origin"), "*");
  EXPECT_FALSE(any.headers.contains("access-control-allow-credentials"));
  const TestServer closed;
  EXPECT_EQ(preflight(closed, "https://one.example").status, 405);
  EXPECT_FALSE(preflight(closed, "https://one.example").headers.contains("access-control-allow-origin"));
}

// Each value takes far more memory than its text: so many and no more, wherever they stand.
TEST(ServerLimits, ABodyHasSoManyValuesAndNoMore) {
  const TestServer server;
  const auto answer_of = [&](const std::string& path, int lists) {
    std::string body = R"({"max_tokens": 1, "prompt": "a", "input": "a", "content": "a", "tokens": [1],)";
    body += R"("messages": [{"role": "user", "content": "a"}], "filename": "a", "x": [[])";
    for (int i = 1; i < lists; ++i) body += ",[]";
    Client client(server.port());
    client.send(request_text("POST", path, body + "]}"));
    return client.read();
  };
  for (const char* path : {"/completion", "/v1/chat/completions", "/v1/messages", "/v1/responses", "/tokenize"}) {
    const Answer refused = answer_of(path, 1'100'000);
    EXPECT_EQ(refused.status, 400) << path;
    EXPECT_NE(refused.body.find("values"), std::string::npos) << refused.body;
    EXPECT_EQ(answer_of(path, 100'000).status, 200) << path;
  }
}

}  // namespace
}  // namespace ei::server
