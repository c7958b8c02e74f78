#include "tools/random_vocabulary.h"

#include <array>
#include <string>
#include <vector>

#include "base/check.h"

namespace ei {
namespace {

enum TokenKind : int32_t { kNormal = 1, kControl = 3, kUnused = 5 };

// Both sides of each merge are bytes or results of earlier merges. "Ġ" (U+0120) is how the alphabet writes a space.
constexpr std::array<std::array<const char*, 2>, 20> kMerges = {
    {{"Ġ", "t"}, {"Ġ", "a"}, {"h", "e"}, {"i", "n"}, {"r", "e"}, {"o", "n"}, {"Ġt", "he"},
     {"e", "r"}, {"Ġ", "s"}, {"a", "t"}, {"Ġ", "w"}, {"Ġ", "o"}, {"e", "n"}, {"Ġ", "c"},
     {"i", "t"}, {"i", "s"}, {"a", "n"}, {"o", "r"}, {"e", "s"}, {"in", "g"}}};
constexpr std::array<const char*, 4> kSpecials = {"<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"};

std::string utf8(uint32_t point) {
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))};
}

// Printable Latin-1 bytes stand for themselves; the others take the code points from 256 on, in order.
std::vector<std::string> byte_alphabet() {
  std::vector<std::string> alphabet;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    alphabet.push_back(utf8(printable ? byte : next++));
  }
  return alphabet;
}

}  // namespace

void add_random_vocabulary(int64_t size, gguf::Writer& writer) {
  EI_CHECK_GE(size, kMinRandomVocabulary);
  std::vector<std::string> tokens = byte_alphabet();
  std::vector<std::string> merges;
  for (const auto& [left, right] : kMerges) {
    tokens.push_back(std::string(left) + right);
    merges.push_back(std::string(left) + " " + right);
  }
  std::vector<int32_t> kinds(tokens.size(), kNormal);
  const auto first_special = static_cast<uint32_t>(tokens.size());
  for (const char* special : kSpecials) {
    tokens.emplace_back(special);
    kinds.push_back(kControl);
  }
  while (static_cast<int64_t>(tokens.size()) < size) {
    tokens.push_back("<filler_" + std::to_string(tokens.size()) + ">");
    kinds.push_back(kUnused);
  }
  writer.text("tokenizer.ggml.model", "gpt2");
  writer.text("tokenizer.ggml.pre", "gpt-2");
  writer.texts("tokenizer.ggml.tokens", tokens);
  writer.i32s("tokenizer.ggml.token_type", kinds);
  writer.texts("tokenizer.ggml.merges", merges);
  writer.u32("tokenizer.ggml.bos_token_id", first_special);
  writer.u32("tokenizer.ggml.eos_token_id", first_special + 3);
  writer.boolean("tokenizer.ggml.add_bos_token", true);
  writer.text("tokenizer.chat_template",
              "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
              "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
}

}  // namespace ei
