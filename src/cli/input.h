// Text from the outside: prompt files, stdin, templates. Every failure is one clear line.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/settings.h"

namespace ei::cli {

// The whole file, checked to be valid UTF-8; "-" is stdin. `what` names it in messages ("prompt file").
Result<std::string> read_text_file(const std::string& path, const char* what);
// The same for text that came from a flag.
Status check_text(const std::string& text, const char* what);
// -p, or -f, or stdin when it is not a terminal. One newline at the end of a file is dropped, as in llama.cpp. With
// both the text of -f, an empty line, and the question of -p.
Result<std::string> read_prompt(const Settings& settings);

}  // namespace ei::cli
