// BodyRoom: how many bytes of bodies are here at a time, those that come in and those that nobody has read yet. The
// first bytes of each are free, so that short requests find room while long ones fill it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

namespace ei::server {

class BodyRoom {
 public:
  static constexpr int64_t kFreeBytes = int64_t{64} << 10;

  explicit BodyRoom(int64_t most) : most_(most) {}
  int64_t held() const { return held_; }

  // What one body takes, for as long as this lives; the room must outlive it. Any thread may end it.
  class Share {
   public:
    explicit Share(BodyRoom& room) : room_(room) {}
    ~Share() { room_.held_ -= taken_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // The body has `bytes` by now. False: there is no room for them.
    bool grow(int64_t bytes) {
      const int64_t more = std::max<int64_t>(bytes - kFreeBytes, 0) - taken_;
      if (more <= 0) return true;
      if (room_.held_ + more > room_.most_) return false;
      room_.held_ += more;
      taken_ += more;
      return true;
    }

   private:
    BodyRoom& room_;
    int64_t taken_ = 0;
  };

 private:
  const int64_t most_;
  std::atomic<int64_t> held_{0};  // grows on the I/O thread alone
};

}  // namespace ei::server
