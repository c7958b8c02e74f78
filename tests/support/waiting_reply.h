// For tests of routes: a reply without a socket. It keeps the response, and whoever asked waits for it.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "server/http/message.h"

namespace ei::server {

class WaitingReply : public Reply {
 public:
  void send(HttpResponse response) override {
    const std::lock_guard lock(mutex_);
    ++answers_;
    response_ = std::move(response);
    come_.notify_all();
  }
  void begin_stream(HttpResponse head) override { send(std::move(head)); }
  void write(std::string) override {}
  void end() override {}
  void on_gone(std::function<void()>) override {}

  HttpResponse wait() {
    std::unique_lock lock(mutex_);
    come_.wait(lock, [&] { return answers_ > 0; });
    return *response_;
  }
  int answers() const {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable come_;
  int answers_ = 0;
  std::optional<HttpResponse> response_{};
};

}  // namespace ei::server
