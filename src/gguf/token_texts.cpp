#include "gguf/token_texts.h"

#include <string>
#include <unordered_set>

#include "gguf/reader.h"

namespace ei::gguf {
namespace {

constexpr size_t kMaxTokenBytes = 4096;  // the longest in use are runs of blanks of a few hundred bytes
constexpr uint64_t kMaxBlownUpBytes = 64 << 20;

// "<0xHH>" -> the byte, else -1.
int byte_of(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    if (c >= '0' && c <= '9') {
      value = value * 16 + (c - '0');
    } else if (c >= 'A' && c <= 'F') {
      value = value * 16 + (c - 'A' + 10);
    } else {
      return -1;
    }
  }
  return value;
}

struct Utf8 {
  bool valid = true;
  size_t foreign = 0;  // code points outside the byte alphabet of byte-level vocabularies
};

Utf8 inspect_utf8(std::string_view text) {
  Utf8 result;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0 || length > text.size() - i) return {false, 0};
    uint32_t point = length == 1 ? lead : lead & (0x7Fu >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xC0) != 0x80) return {false, 0};
      point = (point << 6) | (next & 0x3Fu);
    }
    if (point > 0x10FFFF) return {false, 0};
    const bool in_alphabet = (point >= '!' && point <= '~') || (point >= 0xA1 && point <= 0x143 && point != 0xAD);
    if (!in_alphabet) ++result.foreign;
    i += length;
  }
  return result;
}

Status check_byte_tokens(const std::unordered_set<std::string_view>& known, VocabularyKind vocabulary) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto raw = static_cast<char>(byte);
    bool present = true;
    if (vocabulary == VocabularyKind::kSentencePiece) {
      const char text[] = {'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'};
      present = known.contains({text, sizeof(text)}) || known.contains({&raw, 1});
    } else if (byte > ' ' && byte <= '~') {
      present = known.contains({&raw, 1});  // the alphabet writes printable ASCII as itself
    }
    if (!present) {
      return make_error(ErrorKind::kModel, "the vocabulary has no token for byte 0x%02X; text with it cannot be read",
                        byte);
    }
  }
  // Rare bytes are missing from sound byte-level vocabularies too, but not blanks and line ends (U+0120, U+010A).
  if (vocabulary == VocabularyKind::kByteLevel && !(known.contains("\xC4\xA0") && known.contains("\xC4\x8A"))) {
    return make_error(ErrorKind::kModel, "the vocabulary has no token for the blank or the line end");
  }
  return {};
}

}  // namespace

std::string_view until_nul(std::string_view text) { return text.substr(0, text.find('\0')); }

Status check_token_texts(std::span<const std::string_view> texts, std::span<const TokenKind> kinds,
                         VocabularyKind vocabulary) {
  std::unordered_set<std::string_view> known;
  known.reserve(texts.size());
  uint64_t blown_up = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() > kMaxTokenBytes) {
      return make_error(ErrorKind::kModel, "token %zu has %zu bytes; at most %zu make sense", i, texts[i].size(),
                        kMaxTokenBytes);
    }
    const std::string_view text = until_nul(texts[i]);
    if (!text.empty() && !known.insert(text).second) {
      return make_error(ErrorKind::kModel, "token %zu is a duplicate: '%s'", i, printable(text).c_str());
    }
    const TokenKind kind = kinds.empty() ? TokenKind::kNormal : kinds[i];
    if (kind == TokenKind::kByte && byte_of(text) < 0) {
      return make_error(ErrorKind::kModel, "byte token %zu is '%s'; <0x00> to <0xFF> are allowed", i,
                        printable(text).c_str());
    }
    if (vocabulary != VocabularyKind::kByteLevel) continue;
    const Utf8 utf8 = inspect_utf8(text);
    if (!utf8.valid) return make_error(ErrorKind::kModel, "token %zu is not valid UTF-8", i);
    // libllama replaces each code point it cannot map by the whole text.
    if (kind == TokenKind::kNormal) blown_up += utf8.foreign * (text.size() + 24);
  }
  // libllama names empty tokens so; the name must be free.
  for (size_t i = 0; i < texts.size(); ++i) {
    if (until_nul(texts[i]).empty() && known.contains("[EMPTY_" + std::to_string(i) + "]")) {
      return make_error(ErrorKind::kModel, "token %zu is empty and its stand-in [EMPTY_%zu] exists", i, i);
    }
  }
  if (blown_up > kMaxBlownUpBytes) {
    return make_error(ErrorKind::kModel, "the vocabulary is not byte-level: its tokens would decode to %llu bytes",
                      static_cast<unsigned long long>(blown_up));
  }
  return check_byte_tokens(known, vocabulary);
}

}  // namespace ei::gguf
