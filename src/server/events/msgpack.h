// MsgPack: writes the few kinds of MessagePack values that KV events are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ei::server {

class MsgPack {
 public:
  void array(size_t items);  // they follow
  void text(std::string_view value);
  void number(uint64_t value);
  void real(double value);
  void nil() { bytes_ += '\xc0'; }

  std::string take() { return std::move(bytes_); }

 private:
  void put(unsigned char tag, uint64_t value, int value_bytes);
  std::string bytes_{};
};

}  // namespace ei::server
