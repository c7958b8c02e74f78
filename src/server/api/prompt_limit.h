// PromptLimit: finds that a prompt is too long for the context without making tokens of all of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/cancel.h"
#include "server/api/api_error.h"
#include "text/tokenizer.h"

namespace ei::server {

ApiError too_long(int64_t tokens, int64_t context, const char* at_least = "");

class PromptLimit {
 public:
  // `gone` may be null: raised when nobody waits for the prompt any more.
  PromptLimit(const text::Tokenizer& tokenizer, int64_t context, const CancelToken* gone)
      : tokenizer_(tokenizer), context_(context), gone_(gone) {}

  // Of the next part of the prompt. False: it does not fit, or it is long and nobody waits; error() says which. True
  // says nothing certain: what is not far beyond the context is known only once it is tokens.
  bool may_fit(std::string_view text, bool parse_special);
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const text::Tokenizer& tokenizer_;
  const int64_t context_;
  const CancelToken* gone_;
  int64_t bytes_ = 0;
  int64_t tokens_ = 0;  // of the slices that were looked at
  int64_t doubtful_ = 0;
  std::optional<ApiError> error_{};
};

}  // namespace ei::server
