#include "server/events/event_socket.h"

#include <gtest/gtest.h>

#ifdef EI_HAVE_ZMQ
#include <zmq.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

namespace ei::server {
namespace {

// Somebody who listens to everything.
class Listener {
 public:
  explicit Listener(const std::string& address, int keeps = 1000) {
    const int patience_ms = 30000;
    zmq_setsockopt(socket_, ZMQ_RCVHWM, &keeps, sizeof keeps);
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
    return size < 0 ? "nothing" : std::string(bytes.data(), std::min(static_cast<size_t>(size), bytes.size()));
  }
  // The number of the next message; -1: none comes.
  int64_t number() {
    if (frame() == "nothing") return -1;
    int64_t number = 0;
    for (const char byte : frame()) number = number << 8 | static_cast<unsigned char>(byte);
    frame();
    return number;
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

// What waits for a listener that does not read has a bound; the numbers tell it of what it missed.
TEST(EventSocket, WhoReadsTooSlowlyMissesMessagesAndSeesIt) {
  constexpr int kSent = 2000;
  auto socket = EventSocket::open("tcp://127.0.0.1:*");
  ASSERT_TRUE(socket.ok()) << socket.error().message;
  std::atomic<int> came{0};
  (*socket)->on_listener([&] { ++came; });
  Listener slow((*socket)->address(), /*keeps=*/1);
  for (int i = 0; i < 1000 && came == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_EQ(came, 1);
  const std::string message(size_t{64} << 10, 'x');  // 125 MiB in all
  for (int i = 0; i < kSent; ++i) (*socket)->send(message);
  int64_t received = 0;
  int64_t last = -1;
  while (last < kSent) {
    const int64_t number = slow.number();
    ASSERT_GT(number, last) << "in order, and something always comes";
    last = number;
    ++received;
    // Once it has read all that waited, what is sent comes again.
    if (received % 16 == 0) (*socket)->send("now");
  }
  EXPECT_LT(received, kSent / 2);
  EXPECT_GT(received, 16);
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
