// A running 64-bit checksum against damaged files (not against forgers): four independent lanes of multiply-and-fold
// over 64-bit words, about as fast as memory. Every step is a bijection of its lane, so a change of one word always
// changes the sum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ei::kv {

class Checksum {
 public:
  void update(const void* data, size_t bytes) {
    if (bytes == 0) return;  // `data` may be null then
    const auto* at = static_cast<const unsigned char*>(data);
    total_ += bytes;
    if (pending_ > 0) {
      const size_t taken = std::min(bytes, sizeof(block_) - pending_);
      std::memcpy(block_ + pending_, at, taken);
      pending_ += taken;
      at += taken;
      bytes -= taken;
      if (pending_ < sizeof(block_)) return;
      fold(block_);
      pending_ = 0;
    }
    for (; bytes >= sizeof(block_); at += sizeof(block_), bytes -= sizeof(block_)) fold(at);
    if (bytes > 0) std::memcpy(block_, at, bytes);
    pending_ = bytes;
  }

  // The sum of all bytes so far; more may follow.
  uint64_t value() const {
    Checksum last = *this;
    if (pending_ > 0) {
      std::memset(last.block_ + pending_, 0, sizeof(block_) - pending_);
      last.fold(last.block_);
    }
    uint64_t sum = total_;
    for (const uint64_t lane : last.lanes_) sum = step(sum, lane);
    return sum;
  }

 private:
  static uint64_t step(uint64_t state, uint64_t word) {
    state = (state ^ word) * 0x9E3779B97F4A7C15ull;
    return state ^ (state >> 32);
  }
  void fold(const unsigned char* block) {
    for (uint64_t& lane : lanes_) {
      uint64_t word = 0;
      std::memcpy(&word, block, sizeof(word));
      lane = step(lane, word);
      block += sizeof(word);
    }
  }

  uint64_t lanes_[4] = {1, 2, 3, 4};
  unsigned char block_[32] = {};
  size_t pending_ = 0;
  uint64_t total_ = 0;
};

}  // namespace ei::kv
