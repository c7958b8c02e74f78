// The names of byte-level pre-tokenizers (tokenizer.ggml.pre) that the pinned libllama knows; it throws on others.
#pragma once

#include <string_view>

namespace ei::gguf {

bool known_pre_tokenizer(std::string_view name);
// Pre-tokenizers for which libllama has no default beginning-of-sequence token.
bool pre_tokenizer_without_bos(std::string_view name);

}  // namespace ei::gguf
