// Reads the key/value section of a file: types, lengths, duplicate keys.
#pragma once

#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gguf/file.h"
#include "gguf/reader.h"

namespace ei::gguf {

struct Metadata {
  std::vector<std::pair<std::string_view, Value>> entries;
  std::unordered_map<std::string_view, size_t> index;
};

Result<Metadata> read_metadata(Reader& reader, uint64_t count);

int64_t value_bytes(ValueType type);  // of one number or bool; 0 for strings and arrays
const char* value_type_name(ValueType type);
// Bytes, strings and numbers never lie aligned in the file: read through here.
Value read_number(ValueType type, const std::byte* bytes);

}  // namespace ei::gguf
