// Where the text around planted facts comes from: our own prose, or a text of the user's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace ei::eval {

// The next sentence with the white space that stands before it; empty when the text has ended.
using Haystack = std::function<std::string()>;

Haystack prose_haystack(uint64_t seed);
// The sentences of `text`, each once, from a seeded one on and round to the start again.
Haystack text_haystack(const std::string& text, uint64_t seed);
// As text_haystack for any number of seeds, cutting the text into sentences once.
std::function<Haystack(uint64_t seed)> text_haystacks(const std::string& text);
// The same from a UTF-8 text file whose paragraphs are separated by empty lines.
Result<Haystack> file_haystack(const std::string& path, uint64_t seed);

}  // namespace ei::eval
