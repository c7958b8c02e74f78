// Tiny valid model files in memory: seeds for tests and for the fuzzer.
#pragma once

#include <string>
#include <vector>

#include "gguf/token_texts.h"
#include "gguf/writer.h"

namespace ei::gguf {

using Texts = std::vector<std::string>;

// The smallest vocabulary of its kind and a few words.
Texts small_vocabulary(VocabularyKind vocabulary);

// All metadata of a one-layer model with that vocabulary; no tensors yet.
Writer small_metadata(VocabularyKind vocabulary);

// The whole file: that metadata and two small tensors, the last of which ends with the file.
std::string small_model(VocabularyKind vocabulary = VocabularyKind::kByteLevel, uint32_t version = 3);

}  // namespace ei::gguf
