#include "server/events/event_socket.h"

#include <gtest/gtest.h>

#ifdef EI_HAVE_ZMQ
#include <zmq.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

namespace ei::server {
namespace {

// Somebody who listens to everything.
class Listener {
 public:
  explicit Listener(const std::string& address) {
    const int patience_ms = 30000;
    zmq_setsockopt(socket_, ZMQ_SUBSCRIBE, "", 0);
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    EXPECT_EQ(zmq_connect(socket_, address.c_str()), 0);
  }
  ~Listener() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  std::string frame() {
    std::array<char, 256> bytes{};
    const int size = zmq_recv(socket_, bytes.data(), bytes.size(), 0);
    return size < 0 ? "nothing" : std::string(bytes.data(), static_cast<size_t>(size));
  }

 private:
  void* context_ = zmq_ctx_new();
  void* socket_ = zmq_socket(context_, ZMQ_SUB);
};

TEST(EventSocket, TellsOfListenersAndSendsThemNumberedMessages) {
  auto socket = EventSocket::open("tcp://127.0.0.1:*");
  ASSERT_TRUE(socket.ok()) << socket.error().message;
  std::atomic<int> came{0};
  (*socket)->on_listener([&] {
    ++came;
    (*socket)->send("hello");
  });
  Listener first((*socket)->address());
  EXPECT_EQ(first.frame(), "kv-events");
  EXPECT_EQ(first.frame(), std::string(8, '\0'));
  EXPECT_EQ(first.frame(), "hello");
  Listener second((*socket)->address());
  EXPECT_EQ(second.frame(), "kv-events");
  EXPECT_EQ(second.frame(), std::string(7, '\0') + '\1');
  EXPECT_EQ(came, 2);
}

TEST(EventSocket, AnAddressThatCannotBeHadIsAMistake) {
  for (const char* address : {"nonsense", "tcp://127.0.0.1:seven", "tcp://no.such.interface:1"}) {
    const auto socket = EventSocket::open(address);
    ASSERT_FALSE(socket.ok()) << address;
    EXPECT_EQ(socket.error().kind, ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace ei::server
#endif
