// EventSocket: publishes messages to whoever listens (ZeroMQ, which nothing outside this folder sees). Messages may
// come from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

namespace ei::server {

class EventSocket {
 public:
  // "tcp://127.0.0.1:5557"; with * for the port any that is free. kUsage when it cannot be had, or this program was
  // built without ZeroMQ.
  static Result<std::unique_ptr<EventSocket>> open(const std::string& address);
  ~EventSocket();

  const std::string& address() const;  // with the port
  // As vLLM frames it: a topic, a number that counts up, the message. Never waits; who reads too slowly misses some,
  // and sees it in the numbers.
  void send(const std::string& message);
  // Called on a thread of the socket's own soon after somebody has come, or come back. Null: nobody any more; a call
  // that is under way has ended by then.
  void on_listener(std::function<void()> came);

 private:
  struct Impl;
  explicit EventSocket(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ei::server
