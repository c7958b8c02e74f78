#include "eval/metric/characters.h"

#include "text/utf8.h"

namespace ei::eval {
namespace {

constexpr char32_t kNoCharacter = 0xFFFD;

char32_t decode(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(bytes[i])); };
  switch (bytes.size()) {
    case 1: return byte(0);
    case 2: return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3: return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default: return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}

bool between(char32_t c, char32_t low, char32_t high) { return c >= low && c <= high; }

}  // namespace

std::u32string characters(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    size_t length = 0;
    const text::Utf8 step = text::utf8_step(text, &length);
    out += step == text::Utf8::kCharacter ? decode(text.substr(0, length)) : kNoCharacter;
    text.remove_prefix(length == 0 ? text.size() : length);
  }
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  const auto tail = [&](char32_t c, int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  for (const char32_t c : text) {
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xC0 | (c >> 6));
      tail(c, 0);
    } else if (c < 0x10000) {
      out += static_cast<char>(0xE0 | (c >> 12));
      tail(c, 6);
      tail(c, 0);
    } else {
      out += static_cast<char>(0xF0 | (c >> 18));
      tail(c, 12);
      tail(c, 6);
      tail(c, 0);
    }
  }
  return out;
}

char32_t lower_character(char32_t c) {
  if (between(c, 'A', 'Z')) return c + 32;
  if (c < 0xC0) return c;
  if (between(c, 0xC0, 0xDE) && c != 0xD7) return c + 32;
  // Pairs of upper and lower case, upper first, even or odd.
  if (between(c, 0x100, 0x137) || between(c, 0x14A, 0x177) || between(c, 0x460, 0x481) || between(c, 0x48A, 0x4BF) ||
      between(c, 0x4D0, 0x52F) || between(c, 0x1E00, 0x1E95) || between(c, 0x1EA0, 0x1EFF))
    return c | 1;
  if (between(c, 0x139, 0x148) || between(c, 0x179, 0x17E)) return c % 2 == 1 ? c + 1 : c;
  if (between(c, 0x391, 0x3AB) && c != 0x3A2) return c + 32;
  if (between(c, 0x410, 0x42F)) return c + 32;
  if (between(c, 0x400, 0x40F)) return c + 80;
  if (between(c, 0xFF21, 0xFF3A)) return c + 32;  // full width
  return c;
}

std::u32string lower_characters(std::string_view text) {
  std::u32string out = characters(text);
  for (char32_t& c : out) c = lower_character(c);
  return out;
}

bool is_space(char32_t c) {
  return c == ' ' || between(c, 9, 13) || between(c, 0x1C, 0x1F) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         between(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_ascii_punctuation(char32_t c) {
  return between(c, '!', '/') || between(c, ':', '@') || between(c, '[', '`') || between(c, '{', '~');
}

bool is_chinese_punctuation(char32_t c) {
  if (is_ascii_punctuation(c)) return true;
  // The marks that the benchmarks drop: full-width forms but the full stop and the hyphen's neighbours they leave out,
  // brackets and quotation marks.
  static const std::u32string marks = characters(
      "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞"
      "〟〰〾〿–—‘’‛“”„‟…‧﹏");
  return marks.find(c) != std::u32string::npos;
}

bool is_word_character(char32_t c) {
  if (c < 0x80) return between(c, '0', '9') || between(c, 'A', 'Z') || between(c, 'a', 'z') || c == '_';
  if (c < 0xC0)
    return c == 0xAA || c == 0xB2 || c == 0xB3 || c == 0xB5 || c == 0xB9 || c == 0xBA || between(c, 0xBC, 0xBE);
  if (c == 0xD7 || c == 0xF7 || is_space(c)) return false;
  const bool marks = between(c, 0x2000, 0x206F) || between(c, 0x20A0, 0x20CF) || between(c, 0x2190, 0x23FF) ||
                     between(c, 0x2500, 0x27BF) || between(c, 0x3001, 0x3004) || between(c, 0x3008, 0x3020) ||
                     between(c, 0xFF01, 0xFF0F) || between(c, 0xFF1A, 0xFF20) || between(c, 0xFF3B, 0xFF40) ||
                     between(c, 0xFF5B, 0xFF65);
  return !marks && c != kNoCharacter;
}

std::vector<std::u32string> split_characters(std::u32string_view text) {
  std::vector<std::u32string> words;
  std::u32string word;
  for (const char32_t c : text) {
    if (!is_space(c)) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

}  // namespace ei::eval
