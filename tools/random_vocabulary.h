// A small valid byte-level BPE vocabulary (GPT-2's byte alphabet, a few merges, chat tokens), padded to any size.
#pragma once

#include <cstdint>

#include "gguf/writer.h"

namespace ei {

constexpr int64_t kMinRandomVocabulary = 288;

// Adds the tokenizer keys for exactly `size` tokens (at least kMinRandomVocabulary).
void add_random_vocabulary(int64_t size, gguf::Writer& writer);

}  // namespace ei
