// Texts that flags name by a file or write with escapes: settled once, before a command begins.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/settings.h"

namespace ei::cli {

// A backslash and n become a line break, likewise t, r, both quotes, a backslash and xHH; what is none of these stays.
std::string unescape(const std::string& text);

// The settings with --system-prompt-file, --grammar-file and --json-schema-file read, and --escape done.
Result<Settings> read_texts(Settings settings);

}  // namespace ei::cli
