// TextShelf: texts that clients have left here, so that a long one is sent once and named in the requests that follow.
// Bounded; what has not been used for longest goes first. For any thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

namespace ei::server {

class TextShelf {
 public:
  explicit TextShelf(int64_t most_bytes = int64_t{64} << 20) : most_bytes_(most_bytes) {}

  // The name under which it is found; empty when it is larger than the shelf.
  std::string put(std::string text);
  // Null when there is no such text, or no longer.
  std::shared_ptr<const std::string> find(const std::string& name);
  int64_t bytes() const;

 private:
  struct Text {
    std::string name;
    std::shared_ptr<const std::string> text;
  };

  const int64_t most_bytes_;
  mutable std::mutex mutex_;  // of what follows
  int64_t bytes_ = 0;
  std::list<Text> texts_{};  // the last used first
};

}  // namespace ei::server
