// A text for measurements: the first tokens of a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace ei::bench {

// An error where the file has fewer.
Result<std::vector<int32_t>> first_tokens(const Engine& engine, const std::string& path, int64_t count);

}  // namespace ei::bench
