#include "malformed_files.h"

#include <iterator>

#include "malformed_groups.h"

namespace ei::fuzz {

std::vector<NamedFile> malformed_files() {
  Files all;
  for (auto group :
       {malformed_headers, malformed_lengths, malformed_tensors, malformed_hyperparameters, malformed_vocabularies}) {
    Files files = group();
    all.insert(all.end(), std::make_move_iterator(files.begin()), std::make_move_iterator(files.end()));
  }
  return all;
}

std::vector<NamedFile> valid_files() {
  using gguf::VocabularyKind;
  return {{"valid-byte-level", gguf::small_model(VocabularyKind::kByteLevel)},
          {"valid-sentence-piece", gguf::small_model(VocabularyKind::kSentencePiece)},
          {"valid-version-2", gguf::small_model(VocabularyKind::kByteLevel, 2)}};
}

}  // namespace ei::fuzz
