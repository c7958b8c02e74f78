// Metadata that a user puts in place of a file's: --override-kv, and what the flags for RoPE stand for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace ei::gguf {

struct Override {
  std::string key;  // "{arch}." in front stands for the architecture of the file
  std::variant<int64_t, double, bool, std::string> value;

  bool operator==(const Override&) const = default;
};
using Overrides = std::vector<Override>;

// KEY=TYPE:VALUE, separated by commas; TYPE is int, float, bool or str. A comma inside a string is written "\,".
Result<Overrides> parse_overrides(std::string_view text);

}  // namespace ei::gguf
