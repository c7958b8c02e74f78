// What libllama demands of a vocabulary, checked before it reads one: it aborts or throws where we return an Error.
#include "gguf/file.h"

namespace ei::gguf {

Status check_vocabulary(const File& file) {
  const Array* tokens = file.array("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->element != ValueType::kString || tokens->count == 0) {
    return make_error(ErrorKind::kModel, "tokenizer.ggml.tokens is missing, empty or not an array of strings");
  }
  return {};
}

}  // namespace ei::gguf
