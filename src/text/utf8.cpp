#include "text/utf8.h"

#include <cstdint>

namespace ei::text {

Utf8 utf8_step(std::string_view text, size_t* length) {
  const auto lead = static_cast<uint8_t>(text[0]);
  *length = 1;
  if (lead < 0x80) return Utf8::kCharacter;
  if (lead < 0xC2 || lead > 0xF4) return Utf8::kInvalid;
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and code points above U+10FFFF.
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (; *length < size; ++*length) {
    if (*length == text.size()) return Utf8::kIncomplete;
    const auto byte = static_cast<uint8_t>(text[*length]);
    if (byte < low || byte > high) return Utf8::kInvalid;
    low = 0x80;
    high = 0xBF;
  }
  return Utf8::kCharacter;
}

bool valid_utf8(std::string_view text, size_t* bad_offset) {
  for (size_t offset = 0, length = 0; offset < text.size(); offset += length) {
    if (utf8_step(text.substr(offset), &length) == Utf8::kCharacter) continue;
    if (bad_offset != nullptr) *bad_offset = offset;
    return false;
  }
  return true;
}

std::string take_complete_utf8(std::string& bytes) {
  std::string complete;
  size_t offset = 0;
  for (size_t length = 0; offset < bytes.size(); offset += length) {
    const std::string_view rest = std::string_view(bytes).substr(offset);
    const Utf8 step = utf8_step(rest, &length);
    if (step == Utf8::kIncomplete) break;
    complete += step == Utf8::kCharacter ? rest.substr(0, length) : kReplacement;
  }
  bytes.erase(0, offset);
  return complete;
}

}  // namespace ei::text
