// A server on the embedded model, for one test. It computes where EI_TEST_DEVICE says, else on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/client.h"
#include "server/server.h"

namespace ei::server {

std::string test_device();
const Engine& test_engine();
// Empty where it computes, otherwise why it does not.
std::string why_no_device();
#define EI_NEEDS_DEVICE() \
  if (const std::string why = ei::server::why_no_device(); !why.empty()) GTEST_SKIP() << why

// On a free port, greedy unless a request says otherwise, with a template that shows roles and texts.
ServerOptions test_options();

class TestServer {
 public:
  explicit TestServer(ServerOptions options = test_options());
  TestServer(ServerOptions options, const Engine& engine);  // of another engine
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
