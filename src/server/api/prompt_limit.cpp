#include "server/api/prompt_limit.h"

#include <algorithm>

namespace ei::server {

namespace {
// Texts that are shorter, and those with fewer bytes for a token of the context, are made tokens of at once: a text has
// three to five bytes a token.
constexpr int64_t kShortBytes = int64_t{64} << 10;
constexpr int64_t kBytesForAToken = 6;
constexpr size_t kSliceBytes = size_t{64} << 10;
// A text that is cut has other tokens at the cuts than in one piece: so many, and an eighth, are nobody's fault.
constexpr int64_t kTokensAtACut = 64;

// As much of `text` as a slice holds, without cutting a character.
std::string_view slice_of(std::string_view text) {
  size_t end = std::min(kSliceBytes, text.size());
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  return text.substr(0, end > 0 ? end : text.size());
}
}  // namespace

ApiError too_long(int64_t tokens, int64_t context, const char* at_least) {
  return {.type = "exceed_context_size_error",
          .message = str_format("the request (%s%lld tokens) exceeds the available context size (%lld tokens)",
                                at_least, static_cast<long long>(tokens), static_cast<long long>(context)),
          .details = {{"n_prompt_tokens", tokens}, {"n_ctx", context}}};
}

bool PromptLimit::may_fit(std::string_view text, bool parse_special) {
  const auto left = [&] { return gone_ != nullptr && gone_->cancelled(); };
  bytes_ += static_cast<int64_t>(text.size());
  const bool looks = bytes_ > std::max(kShortBytes, kBytesForAToken * context_);
  while (looks && !text.empty() && !error_ && !left()) {
    const std::string_view slice = slice_of(text);
    text.remove_prefix(slice.size());
    const Result<std::vector<text::Token>> made = tokenizer_.tokenize(slice, {.parse_special = parse_special});
    if (!made.ok()) break;  // the whole text will say it better
    tokens_ += static_cast<int64_t>(made->size());
    doubtful_ += kTokensAtACut;
    const int64_t certain = tokens_ - tokens_ / 9 - doubtful_;
    if (certain > context_) error_ = too_long(certain, context_, "at least ");
  }
  if (looks && left()) error_ = unavailable("the client has gone");
  return !error_;
}

}  // namespace ei::server
