// Connections take descriptors, of which a process has so many.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <thread>

#include "server/test_server.h"

namespace ei::server {
namespace {

// No file, and no connection, can be opened while it lives. For this process.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(ServerDescriptors, WhoComesWhenThereAreNoneWaitsAndCostsNoProcessor) {
  const TestServer server;
  EXPECT_EQ(server.get("/health").status, 200);
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(socket, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  {
    const NoDescriptors none;
    ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const std::clock_t before = std::clock();  // of all threads
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.25);
  }
  const std::string asked = request_text("GET", "/health", "");
  ASSERT_EQ(::send(socket, asked.data(), asked.size(), MSG_NOSIGNAL), static_cast<ssize_t>(asked.size()));
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char answer[16] = {};
  EXPECT_EQ(::recv(socket, answer, 12, MSG_WAITALL), 12);
  EXPECT_EQ(std::string(answer), "HTTP/1.1 200");
  ::close(socket);
  EXPECT_EQ(server.get("/health").status, 200);
}

}  // namespace
}  // namespace ei::server
