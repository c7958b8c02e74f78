// TextLanes: a thread for short texts, one for long ones and one for the longest. JSON, templates and tokens take a
// time that goes with the length, so a text waits only behind others of its size.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>

#include "server/text_thread.h"

namespace ei::server {

class TextLanes {
 public:
  // Bytes of the longest text in a lane. 64 KiB take some 50 ms to make tokens of, 4 MiB some seconds.
  static constexpr std::array<int64_t, 3> kMostBytes = {int64_t{64} << 10, int64_t{4} << 20,
                                                        std::numeric_limits<int64_t>::max()};
  static size_t lane_of(int64_t bytes) {
    size_t lane = 0;
    while (bytes > kMostBytes[lane]) ++lane;
    return lane;
  }

  // `most` may wait in each.
  explicit TextLanes(size_t most) : threads_{{TextThread(most), TextThread(most), TextThread(most)}} {}
  // In the order in which jobs move on: as long as one is in work, the lanes behind its own are there.
  ~TextLanes() {
    for (TextThread& thread : threads_) thread.stop();
  }

  // False when too many wait.
  bool post(size_t lane, std::function<void()> job) { return threads_[lane].post(std::move(job)); }
  bool idle() const {
    // A job may leave for a later lane, never for an earlier one.
    for (const TextThread& thread : threads_)
      if (!thread.idle()) return false;
    return true;
  }

 private:
  std::array<TextThread, 3> threads_;
};

}  // namespace ei::server
