// Parses bytes from an allocation of exactly their size (so that a sanitizer sees any read beyond them) and touches
// everything a File offers.
#pragma once

#include <functional>
#include <string>

#include "gguf/file.h"

namespace ei::fuzz {

// Hands the outcome to `judge` and returns whether the bytes were accepted.
bool parse_copy(const std::string& bytes, const std::function<void(const Result<gguf::File>&)>& judge);

// Reads every value and the ends of every tensor; the sum keeps the reads alive.
uint64_t walk(const gguf::File& file);

}  // namespace ei::fuzz
