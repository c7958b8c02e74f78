// Tokenizer: text to tokens and back, by libllama's vocabulary of a model file (nothing else of the file is loaded).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/overrides.h"
#include "text/utf8.h"

namespace ei::text {

using Token = int32_t;
inline constexpr Token kNoToken = -1;

struct TokenizeOptions {
  bool add_bos_eos = false;    // what the model file asks for at the ends of a prompt
  bool parse_special = false;  // false: text that looks like a control token stays plain text
};

// Const after load; const members may be called from many threads.
class Tokenizer {
 public:
  // The file must have passed gguf::File: libllama aborts on some malformed vocabularies.
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& gguf_path, const gguf::Overrides& overrides = {});
  ~Tokenizer();

  const std::string& path() const;  // the file it was loaded from
  int vocab_size() const;
  // Text that is not UTF-8 is an Error (kUsage) that names the byte offset.
  Result<std::vector<Token>> tokenize(std::string_view text, TokenizeOptions options) const;
  // The bytes of one token (not always whole characters); control tokens have some only with `special`. Ids outside
  // the vocabulary have none.
  std::string piece(Token token, bool special) const;
  std::string detokenize(std::span<const Token> tokens, bool special) const;

  bool contains(Token token) const { return token >= 0 && token < vocab_size(); }
  bool is_end_of_generation(Token token) const;
  bool is_control(Token token) const;
  // kNoToken where the vocabulary has none.
  Token bos() const;
  Token eos() const;
  Token eot() const;
  Token newline() const;
  Token pad() const;
  bool adds_bos() const;
  bool adds_eos() const;
  // Tokens the model file says never to generate.
  std::vector<Token> suppressed() const;

  // The model's own Jinja template; empty when the file has none.
  std::string chat_template() const;

  // Every place where `text` spells a token that parse_special would turn into a control token: [begin, end) offsets.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  std::vector<Range> find_control_text(std::string_view text) const;
  // Spellings in `source` of tokens that the file calls user defined, which are matched in any text, and that look like
  // the marks of a turn: <...> or [...].
  std::vector<std::string> find_markers(std::string_view source) const;

  // libllama's vocabulary, for the Sampler.
  const void* raw() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ei::text
