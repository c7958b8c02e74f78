#include "gpu/text.h"

#include <fstream>
#include <iterator>

#include "text/tokenizer.h"

namespace ei::bench {

Result<std::vector<int32_t>> first_tokens(const Engine& engine, const std::string& path, int64_t count) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return make_error(ErrorKind::kRuntime, "cannot read %s", path.c_str());
  std::string text{std::istreambuf_iterator<char>(file), {}};
  constexpr int64_t kMostBytes = 12;  // of a token, on the average: no more of the text is cut into tokens
  auto bytes = static_cast<size_t>(count * kMostBytes);
  while (bytes < text.size() && (text[bytes] & 0xC0) == 0x80) ++bytes;  // a character stays whole
  if (bytes < text.size()) text.resize(bytes);
  EI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, engine.tokenizer().tokenize(text, {.add_bos_eos = true}));
  if (static_cast<int64_t>(tokens.size()) < count)
    return make_error(ErrorKind::kUsage, "%s has %lld tokens, %lld are needed", path.c_str(),
                      static_cast<long long>(tokens.size()), static_cast<long long>(count));
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

}  // namespace ei::bench
