#include "eval/items/item_hash.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace ei::eval {
namespace {

// FNV-1a; every part begins with its size, so that no two parts can be cut elsewhere.
class Hash {
 public:
  void mix(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) mix_byte(static_cast<unsigned char>(number >> shift));
  }
  void mix(std::string_view text) {
    mix(static_cast<uint64_t>(text.size()));
    for (const char c : text) mix_byte(static_cast<unsigned char>(c));
  }
  void mix(std::span<const text::Token> tokens) {
    mix(static_cast<uint64_t>(tokens.size()));
    for (const text::Token token : tokens) mix(static_cast<uint64_t>(token));
  }
  void mix(const std::vector<std::string>& texts) {
    mix(static_cast<uint64_t>(texts.size()));
    for (const std::string& one : texts) mix(std::string_view(one));
  }
  uint64_t value() const { return value_; }

 private:
  void mix_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3ull; }

  uint64_t value_ = 0xcbf29ce484222325ull;
};

}  // namespace

std::string item_hash(const Item& item, const ItemPrompt& prompt) {
  Hash hash;
  hash.mix(prompt.context);
  for (size_t turn = 0; turn < item.turns.size(); ++turn) {
    hash.mix(prompt.turns[turn]);
    hash.mix(item.turns[turn].gold.answers);
    hash.mix(item.turns[turn].gold.classes);
  }
  hash.mix(item.metric->name);
  hash.mix(static_cast<uint64_t>(item.max_new));
  hash.mix(std::string_view(item.scored("")));
  hash.mix(item.choices);
  return str_format("%016llx", static_cast<unsigned long long>(hash.value()));
}

}  // namespace ei::eval
