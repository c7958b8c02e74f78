#include "eval/haystack.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "eval/prose.h"

namespace ei::eval {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// One past the end of the sentence that begins at `start`: a stop, closing marks, then white space.
size_t sentence_end(std::string_view text, size_t start) {
  for (size_t i = start; i < text.size(); ++i) {
    if (text.substr(i, 2) == "\n\n") return i;
    if (std::string_view(".!?").find(text[i]) == std::string_view::npos) continue;
    size_t end = text.find_first_not_of("\"')_", i + 1);
    if (end == std::string_view::npos) end = text.size();
    if (end == text.size() || kSpace.find(text[end]) != std::string_view::npos) return end;
  }
  return text.size();
}

std::vector<std::string> split_sentences(std::string_view text) {
  std::vector<std::string> pieces;
  size_t start = 0;
  while (text.find_first_not_of(kSpace, start) != std::string_view::npos) {
    const size_t body = text.find_first_not_of(kSpace, start);
    const size_t end = sentence_end(text, body);
    const bool new_paragraph = text.substr(start, body - start).find("\n\n") != std::string_view::npos;
    pieces.push_back((new_paragraph ? "\n\n" : " ") + std::string(text.substr(body, end - body)));
    start = end;
  }
  return pieces;
}

}  // namespace

Haystack prose_haystack(uint64_t seed) {
  auto prose = std::make_shared<Prose>(seed);
  return [prose] { return prose->piece(); };
}

std::function<Haystack(uint64_t)> text_haystacks(const std::string& text) {
  auto pieces = std::make_shared<const std::vector<std::string>>(split_sentences(text));
  return [pieces](uint64_t seed) -> Haystack {
    Random random(seed);
    const size_t first = pieces->empty() ? 0 : static_cast<size_t>(random.below(static_cast<int64_t>(pieces->size())));
    return [pieces, first, given = size_t{0}]() mutable -> std::string {
      if (given == pieces->size()) return "";
      return (*pieces)[(first + given++) % pieces->size()];
    };
  };
}

Haystack text_haystack(const std::string& text, uint64_t seed) { return text_haystacks(text)(seed); }

Result<Haystack> file_haystack(const std::string& path, uint64_t seed) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good() && !file.eof())
    return make_error(ErrorKind::kUsage, "cannot read the text file '%s'; check the path", path.c_str());
  if (text.find_first_not_of(kSpace) == std::string::npos)
    return make_error(ErrorKind::kUsage, "the text file '%s' is empty or cannot be read", path.c_str());
  return text_haystack(text, seed);
}

}  // namespace ei::eval
