#include "server/events/event_socket.h"

#ifdef EI_HAVE_ZMQ
#include <zmq.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace ei::server {

namespace {
constexpr auto kLook = std::chrono::milliseconds(50);
constexpr std::string_view kTopic = "kv-events";
// Messages that wait for one listener, beside what the system keeps for a connection; each may be as long as the texts
// that it names.
constexpr int kMostWaiting = 256;
}  // namespace

struct EventSocket::Impl {
  ~Impl() {
    stopping = true;
    if (thread.joinable()) thread.join();
    if (socket != nullptr) zmq_close(socket);
    if (context != nullptr) zmq_ctx_term(context);
  }

  void watch();
  bool somebody_came();

  void* context = zmq_ctx_new();
  void* socket = context == nullptr ? nullptr : zmq_socket(context, ZMQ_XPUB);
  std::string address{};
  uint64_t sequence = 0;
  std::mutex mutex{};  // of the socket: one thread at a time, with a fence between, is what ZeroMQ asks for
  std::mutex callback{};
  std::function<void()> came{};
  std::atomic<bool> stopping{false};
  std::thread thread{};
};

// Subscriptions are messages that begin with 1.
bool EventSocket::Impl::somebody_came() {
  const std::lock_guard lock(mutex);
  bool subscribed = false;
  std::array<char, 64> message{};
  while (zmq_recv(socket, message.data(), message.size(), ZMQ_DONTWAIT) >= 0)
    subscribed = subscribed || message.front() == 1;
  return subscribed;
}

void EventSocket::Impl::watch() {
  while (!stopping) {
    if (somebody_came()) {
      const std::lock_guard lock(callback);
      if (came) came();
    }
    std::this_thread::sleep_for(kLook);
  }
}

EventSocket::EventSocket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EventSocket::~EventSocket() = default;

Result<std::unique_ptr<EventSocket>> EventSocket::open(const std::string& address) {
  auto impl = std::make_unique<Impl>();
  if (impl->socket == nullptr) return make_error(ErrorKind::kRuntime, "no socket for KV events");
  const int every = 1;  // who comes back is told of, too
  const int linger = 0;
  zmq_setsockopt(impl->socket, ZMQ_XPUB_VERBOSE, &every, sizeof every);
  zmq_setsockopt(impl->socket, ZMQ_LINGER, &linger, sizeof linger);
  zmq_setsockopt(impl->socket, ZMQ_SNDHWM, &kMostWaiting, sizeof kMostWaiting);
  if (zmq_bind(impl->socket, address.c_str()) != 0)
    return make_error(ErrorKind::kUsage, "cannot publish KV events on '%s': %s", address.c_str(),
                      zmq_strerror(zmq_errno()));
  std::array<char, 256> bound{};
  size_t size = bound.size();
  if (zmq_getsockopt(impl->socket, ZMQ_LAST_ENDPOINT, bound.data(), &size) == 0) impl->address = bound.data();
  impl->thread = std::thread([raw = impl.get()] { raw->watch(); });
  return std::unique_ptr<EventSocket>(new EventSocket(std::move(impl)));
}

const std::string& EventSocket::address() const { return impl_->address; }

void EventSocket::send(const std::string& message) {
  const std::lock_guard lock(impl_->mutex);
  std::array<unsigned char, 8> number{};
  for (size_t i = 0; i < number.size(); ++i)
    number[i] = static_cast<unsigned char>(impl_->sequence >> (8 * (number.size() - 1 - i)));
  ++impl_->sequence;
  zmq_send(impl_->socket, kTopic.data(), kTopic.size(), ZMQ_SNDMORE);
  zmq_send(impl_->socket, number.data(), number.size(), ZMQ_SNDMORE);
  zmq_send(impl_->socket, message.data(), message.size(), 0);
}

void EventSocket::on_listener(std::function<void()> came) {
  const std::lock_guard lock(impl_->callback);
  impl_->came = std::move(came);
}

}  // namespace ei::server

#else

namespace ei::server {

struct EventSocket::Impl {
  std::string address{};
};

EventSocket::EventSocket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EventSocket::~EventSocket() = default;
Result<std::unique_ptr<EventSocket>> EventSocket::open(const std::string&) {
  return make_error(ErrorKind::kUsage, "built without ZeroMQ: there are no KV events");
}
const std::string& EventSocket::address() const { return impl_->address; }
void EventSocket::send(const std::string&) {}
void EventSocket::on_listener(std::function<void()>) {}

}  // namespace ei::server

#endif
