#include "text/stream_decoder.h"

#include "text/utf8.h"

namespace ei::text {

std::string StreamDecoder::push(Token token) {
  pending_ += tokenizer_->piece(token, /*special=*/false);
  return take_complete_utf8(pending_);
}

std::string StreamDecoder::finish() {
  const bool held = !pending_.empty();
  pending_.clear();
  return held ? std::string(kReplacement) : std::string();
}

}  // namespace ei::text
