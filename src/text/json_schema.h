// A JSON schema becomes a GBNF grammar that only matching documents satisfy (llama.cpp's converter).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ei::text {

// How deep brackets are nested outside strings. Malformed text is left to a parser.
int json_depth(std::string_view json);

// kUsage when the text is not JSON, not a schema the converter knows, or passes a limit: 256 KiB, 64 levels, 256
// properties in one object.
Result<std::string> json_schema_to_gbnf(std::string_view schema);

}  // namespace ei::text
