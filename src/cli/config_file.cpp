#include "cli/config_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/input.h"
#include "cli/option_values.h"
#include "text/json_schema.h"

namespace ei::cli {

namespace {
constexpr int kMaxDepth = 100;  // a JSON schema may stand in it

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string normal_key(std::string_view key) {
  std::string normal(key);
  std::replace(normal.begin(), normal.end(), '_', '-');
  return normal;
}

// A scalar as a flag would spell it; a list as "a,b,c".
std::string json_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const nlohmann::json& item : value) {
    if (!list.empty()) list += ",";
    list += json_text(item);
  }
  return list;
}

Result<std::vector<ConfigEntry>> parse_json_config(std::string_view text, const std::string& name) {
  if (text::json_depth(text) > kMaxDepth) {
    return make_error(ErrorKind::kUsage, "config file %s is nested too deep", name.c_str());
  }
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // It counts the bytes it has read, the one it did not like among them.
    const std::string_view read = text.substr(0, error.byte > 0 ? error.byte - 1 : 0);
    return make_error(ErrorKind::kUsage, "config file %s is not valid JSON (line %lld)", name.c_str(),
                      static_cast<long long>(1 + std::count(read.begin(), read.end(), '\n')));
  }
  std::vector<ConfigEntry> entries;
  for (const auto& [key, value] : object.items()) {
    // A schema is an object itself; everything else is a scalar or a list of scalars.
    entries.push_back({normal_key(key), json_text(value), name});
  }
  return entries;
}
}  // namespace

Result<std::vector<ConfigEntry>> parse_config(std::string_view text, const std::string& name) {
  if (trimmed(text).starts_with('{')) return parse_json_config(text, name);
  std::vector<ConfigEntry> entries;
  int number = 0;
  for (const std::string& raw : split(text, '\n')) {
    ++number;
    const std::string_view line = trimmed(raw);
    if (line.empty() || line.starts_with('#')) continue;
    const std::string origin = str_format("%s:%d", name.c_str(), number);
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return make_error(ErrorKind::kUsage, "%s: not a 'name = value' line: %s", origin.c_str(),
                        std::string(line).c_str());
    }
    std::string_view value = trimmed(line.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    entries.push_back({normal_key(trimmed(line.substr(0, equals))), std::string(value), origin});
  }
  return entries;
}

Result<std::vector<ConfigEntry>> read_config_file(const std::string& path) {
  EI_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, "config file"));
  return parse_config(text, path);
}

}  // namespace ei::cli
