#include "gguf/reader.h"

#include <algorithm>

namespace ei::gguf {

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (const char c : text.substr(0, limit)) out += c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > limit) out += "...";
  return out;
}

Result<std::span<const std::byte>> Reader::block(uint64_t count, const char* what) {
  if (count > remaining()) return truncated(what, count);
  const auto taken = bytes_.subspan(position_, static_cast<size_t>(count));
  position_ += taken.size();
  return taken;
}

Result<std::string_view> Reader::text(const char* what) {
  EI_ASSIGN_OR_RETURN(const uint64_t length, number<uint64_t>(what));
  EI_ASSIGN_OR_RETURN(const auto taken, block(length, what));
  return std::string_view(reinterpret_cast<const char*>(taken.data()), taken.size());
}

Error Reader::truncated(const char* what, uint64_t needed) const {
  return make_error(ErrorKind::kModel, "truncated or corrupt: %s needs %llu bytes at offset %zu, %zu are left", what,
                    static_cast<unsigned long long>(needed), position_, remaining());
}

}  // namespace ei::gguf
