// The groups that malformed_files() joins, one file each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "malformed_files.h"
#include "support/small_model.h"

namespace ei::fuzz {

using Files = std::vector<NamedFile>;

Files malformed_headers();          // magic, version, counts
Files malformed_lengths();          // string and array lengths, value types, keys
Files malformed_tensors();          // names, shapes, types, offsets, alignment, missing data
Files malformed_hyperparameters();  // architecture, layer and head counts
Files malformed_vocabularies();     // tokens, scores, types, merges, ids, templates

// Numbers that counts and lengths lie with.
struct Lie {
  const char* name;
  uint64_t value;
};
inline constexpr Lie kLies[] = {{"minus-1", ~uint64_t{0}},   {"2^63-1", (uint64_t{1} << 63) - 1},
                                {"2^63", uint64_t{1} << 63}, {"2^61", uint64_t{1} << 61},
                                {"2^40", uint64_t{1} << 40}, {"2^32", uint64_t{1} << 32}};

constexpr uint32_t id(gguf::ValueType type) { return static_cast<uint32_t>(type); }
// `bytes` with the number at `offset` replaced.
template <typename T>
std::string patched(std::string bytes, size_t offset, T value) {
  const std::string number = gguf::encode(value);
  for (size_t i = 0; i < number.size(); ++i) bytes[offset + i] = number[i];
  return bytes;
}

}  // namespace ei::fuzz
