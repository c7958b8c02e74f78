// A server on the embedded model, for one test.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/client.h"
#include "server/server.h"

namespace ei::server {

// On a free port, greedy unless a request says otherwise, with a template that shows roles and texts.
ServerOptions test_options();

class TestServer {
 public:
  explicit TestServer(ServerOptions options = test_options());
  TestServer(ServerOptions options, const Engine& engine);  // of another engine than the embedded one
  uint16_t port() const { return server_->port(); }
  Server& server() { return *server_; }
  Answer get(const std::string& path, const std::string& headers = {}) const;
  Answer post(const std::string& path, const nlohmann::json& body, const std::string& headers = {}) const;
  // Waits until no slot is busy; false after ten seconds.
  bool becomes_idle() const;
  bool becomes_busy() const;  // some slot

 private:
  bool becomes(bool busy) const;
  std::unique_ptr<Server> server_;
};

// A text of so many words, and the tokens that the embedded model makes of it.
std::string long_text(int words, int seed = 1);

// Of this process, without what the allocator could give back.
int64_t resident_bytes();

}  // namespace ei::server
