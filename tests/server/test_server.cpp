#include "server/test_server.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/random.h"
#include "support/embedded_engine.h"

namespace ei::server {

std::string test_device() {
  const char* named = std::getenv("EI_TEST_DEVICE");
  return named != nullptr ? named : "cpu";
}

const Engine& test_engine() {
  if (test_device() == "cpu") return embedded_engine();
  EngineOptions options;
  options.backend = test_device();
  static const std::unique_ptr<Engine> loaded = load_embedded(options);
  return *loaded;
}

std::string why_no_device() {
  for (const BackendEntry& entry : backends()) {
    if (entry.name != test_device()) continue;
    const Status usable = entry.usable();
    return usable.ok() ? "" : usable.error().message;
  }
  return "built without " + test_device();
}

ServerOptions test_options() {
  ServerOptions options;
  options.http.port = 0;
  options.limits.defaults.generate.sampler.temp = 0;
  options.limits.defaults.generate.sampler.seed = 1;
  options.chat_template =
      "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}";
  options.version = "1";
  options.commit = "test";
  options.names = {"needle"};
  return options;
}

TestServer::TestServer(ServerOptions options) : TestServer(std::move(options), test_engine()) {}

TestServer::TestServer(ServerOptions options, const Engine& engine) {
  auto started = Server::start(engine, std::move(options));
  EXPECT_TRUE(started.ok()) << (started.ok() ? "" : started.error().message);
  if (started.ok()) server_ = std::move(*started);
}

Answer TestServer::get(const std::string& path, const std::string& headers) const {
  return server::get(port(), path, headers);
}

Answer TestServer::post(const std::string& path, const nlohmann::json& body, const std::string& headers) const {
  return server::post(port(), path, body, headers);
}

bool TestServer::becomes_idle() const { return becomes(false); }
bool TestServer::becomes_busy() const { return becomes(true); }

bool TestServer::becomes(bool wanted) const {
  for (int i = 0; i < 500; ++i) {
    bool busy = false;
    for (const nlohmann::json& slot : get("/slots").json()) busy = busy || slot["is_processing"].get<bool>();
    if (busy == wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

int64_t resident_bytes() {
  ::malloc_trim(0);
  int64_t pages = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::string long_text(int words, int seed) {
  Random random(static_cast<uint64_t>(seed));
  constexpr const char* kWords[] = {"river", "stone", "winter", "letter", "garden", "silver", "morning", "captain"};
  std::string text;
  for (int i = 0; i < words; ++i) text += std::string(i == 0 ? "" : " ") + kWords[random.below(std::size(kWords))];
  return text;
}

}  // namespace ei::server
