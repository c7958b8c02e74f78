// From words to Settings: defaults < config file < environment < flags.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/options.h"
#include "cli/settings.h"

namespace ei::cli {

// Looks a variable up; null when it is not set.
using Environment = std::function<const char*(const char* name)>;

// The log file that was asked for, as far as it can be told when other words are wrong; empty: none. `commands`: whose
// options to read.
std::string find_log_file(unsigned commands, std::span<const std::string> arguments, const Environment& environment);

// " (did you mean run?)" for a word that is nearly a command; empty for others.
std::string command_hint(std::string_view word);

Result<Settings> parse_settings(const CommandEntry& entry, std::span<const std::string> arguments,
                                const Environment& environment);
// `base` with "key=value,..." on top; keys are long or short names of the command's options. `flag` gave them.
Result<Settings> with_overrides(const CommandEntry& entry, const Settings& base, const std::string& overrides,
                                const std::string& flag = "--vs");

}  // namespace ei::cli
