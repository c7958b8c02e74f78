// Checks of the texts of a vocabulary: length, duplicates, byte tokens, and how far libllama would blow them up.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace ei::gguf {

enum class VocabularyKind { kSentencePiece, kByteLevel };

// Token types as the file numbers them.
enum class TokenKind : int32_t { kUndefined, kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// What libllama reads of a text in an array: it ends at the first NUL.
std::string_view until_nul(std::string_view text);

// `kinds` is empty when the file names none (all tokens are normal then).
Status check_token_texts(std::span<const std::string_view> texts, std::span<const TokenKind> kinds,
                         VocabularyKind vocabulary);

}  // namespace ei::gguf
