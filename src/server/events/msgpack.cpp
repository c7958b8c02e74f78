#include "server/events/msgpack.h"

#include <bit>

namespace ei::server {

void MsgPack::put(unsigned char tag, uint64_t value, int value_bytes) {
  bytes_ += static_cast<char>(tag);
  for (int i = value_bytes - 1; i >= 0; --i) bytes_ += static_cast<char>(value >> (8 * i));
}

void MsgPack::array(size_t items) {
  if (items < 16) return put(static_cast<unsigned char>(0x90 | items), 0, 0);
  items <= UINT16_MAX ? put(0xdc, items, 2) : put(0xdd, items, 4);
}

void MsgPack::text(std::string_view value) {
  if (value.size() < 32) {
    put(static_cast<unsigned char>(0xa0 | value.size()), 0, 0);
  } else {
    put(0xdb, value.size(), 4);
  }
  bytes_ += value;
}

void MsgPack::number(uint64_t value) {
  if (value < 128) return put(static_cast<unsigned char>(value), 0, 0);
  if (value <= UINT8_MAX) return put(0xcc, value, 1);
  if (value <= UINT16_MAX) return put(0xcd, value, 2);
  value <= UINT32_MAX ? put(0xce, value, 4) : put(0xcf, value, 8);
}

void MsgPack::real(double value) { put(0xcb, std::bit_cast<uint64_t>(value), 8); }

}  // namespace ei::server
