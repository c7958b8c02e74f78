// Reader: a cursor over untrusted bytes. Every read is checked against what is left, so nothing the bytes claim is
// believed before it has been seen.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ei::gguf {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read in place");

// `text` for use in a one-line message: control and non-ASCII bytes become '?', a long text is cut.
std::string printable(std::string_view text, size_t limit = 80);

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  // `what` names the thing for the message: "truncated: the tensor count needs 8 bytes at offset 8, 3 are left".
  template <typename T>
  Result<T> number(const char* what) {
    T value;
    if (remaining() < sizeof(T)) return truncated(what, sizeof(T));
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }
  Result<std::span<const std::byte>> block(uint64_t count, const char* what);
  // A 64-bit length and that many bytes.
  Result<std::string_view> text(const char* what);

 private:
  Error truncated(const char* what, uint64_t needed) const;

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace ei::gguf
