// StreamDecoder: tokens in, valid UTF-8 out. A character whose bytes are spread over several tokens is held back until
// it is whole; bytes that form no character become U+FFFD.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace ei::text {

class StreamDecoder {
 public:
  // The tokenizer must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // The text this token completes; may be empty. Control tokens have no text.
  std::string push(Token token);
  // What is still held back, as U+FFFD; the decoder is then as new.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;  // the bytes of at most one unfinished character
};

}  // namespace ei::text
