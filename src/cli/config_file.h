// The config file: options by their long names, as `name = value` lines (# begins a comment line) or as one JSON
// object.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ei::cli {

struct ConfigEntry {
  std::string key;  // as in the file, '_' read as '-'
  std::string value;
  std::string origin;  // "settings.conf:3", for messages
};

Result<std::vector<ConfigEntry>> parse_config(std::string_view text, const std::string& name);
Result<std::vector<ConfigEntry>> read_config_file(const std::string& path);

}  // namespace ei::cli
