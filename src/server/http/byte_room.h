// ByteRoom: how many bytes of one kind (heads, bodies) are here at a time, those that come in and those that nobody has
// read yet. The first bytes of each are free, so that short ones find room while long ones fill it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace ei::server {

class ByteRoom {
 public:
  ByteRoom(int64_t most, int64_t free_bytes) : most_(most), free_(free_bytes) {}
  int64_t held() const { return held_; }

  // What one of them takes, for as long as this lives; the room must outlive it. Any thread may end it.
  class Share {
   public:
    explicit Share(ByteRoom& room) : room_(room) {}
    ~Share() { room_.held_ -= taken_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // It has `bytes` by now. False: there is no room for them.
    bool grow(int64_t bytes) {
      const int64_t more = std::max<int64_t>(bytes - room_.free_, 0) - taken_;
      if (more <= 0) return true;
      if (room_.held_ + more > room_.most_) return false;
      room_.held_ += more;
      taken_ += more;
      return true;
    }

   private:
    ByteRoom& room_;
    int64_t taken_ = 0;
  };

 private:
  const int64_t most_;
  const int64_t free_;
  std::atomic<int64_t> held_{0};  // grows on the I/O thread alone
};

}  // namespace ei::server
