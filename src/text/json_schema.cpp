#include "text/json_schema.h"

#include <json-schema-to-grammar.h>
#include <json.h>

#include <algorithm>
#include <exception>
#include <new>

#include "text/utf8.h"

namespace ei::text {
namespace {

constexpr size_t kMaxSchemaBytes = size_t{256} << 10;
constexpr int kMaxSchemaDepth = 64;
constexpr size_t kMaxMembers = 256;
// Names and references become rule names through a regular expression that recurses once per character.
constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxPatternBytes = 512;

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, 300);
}

// The JSON library puts its own name and an error number in front: "[json.exception.parse_error.101] parse error at
// ...".
std::string without_tag(const std::string& what) {
  const size_t end = what.starts_with("[json.exception.") ? what.find("] ") : std::string::npos;
  return end == std::string::npos ? what : what.substr(end + 2);
}

// The converter lets any string through where it cannot express a pattern (and says so on stderr, hence the simple
// tests first); such a schema is refused instead.
Status check_pattern(const std::string& pattern) {
  const bool anchored = pattern.size() >= 2 && pattern.front() == '^' && pattern.back() == '$';
  bool expressible = anchored && pattern.size() <= kMaxPatternBytes && pattern.find("(?") == std::string::npos;
  if (expressible) {
    common_json alone = common_json::object();
    alone["type"] = "string";
    alone["pattern"] = pattern;
    expressible = json_schema_to_grammar(alone, true).find("root ::= string\n") == std::string::npos;
  }
  if (expressible) return {};
  return make_error(
      ErrorKind::kUsage,
      "JSON schema: pattern '%.100s' is not supported: it must start with ^, end with $, have at most %zu "
      "bytes and use no lookaround",
      one_line(pattern).c_str(), kMaxPatternBytes);
}

Status check_value(const common_json& value) {
  if (!value.is_object() && !value.is_array()) return {};
  if (value.is_array()) {
    for (const common_json& child : value) EI_RETURN_IF_ERROR(check_value(child));
    return {};
  }
  if (value.size() > kMaxMembers) {
    return make_error(ErrorKind::kUsage, "JSON schema: an object has %zu members, at most %zu are allowed",
                      value.size(), kMaxMembers);
  }
  for (const auto& [key, child] : value.items()) {
    const bool reference = key == "$ref" && child.is_string();
    if (key.size() > kMaxNameBytes || (reference && child.get<std::string>().size() > 2 * kMaxNameBytes)) {
      return make_error(ErrorKind::kUsage, "JSON schema: a name is longer than %zu bytes: %s...", kMaxNameBytes,
                        one_line(key).substr(0, 32).c_str());
    }
    if (key == "pattern" && child.is_string()) EI_RETURN_IF_ERROR(check_pattern(child.get<std::string>()));
    EI_RETURN_IF_ERROR(check_value(child));
  }
  return {};
}

}  // namespace

int json_depth(std::string_view json) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

Result<std::string> json_schema_to_gbnf(std::string_view schema) {
  if (schema.size() > kMaxSchemaBytes) {
    return make_error(ErrorKind::kUsage, "JSON schema: too long: %zu > %zu bytes", schema.size(), kMaxSchemaBytes);
  }
  if (const int depth = json_depth(schema); depth > kMaxSchemaDepth) {
    return make_error(ErrorKind::kUsage, "JSON schema: nested too deep: %d > %d levels", depth, kMaxSchemaDepth);
  }
  if (!valid_utf8(schema)) return make_error(ErrorKind::kUsage, "JSON schema: not valid UTF-8");
  try {
    const common_json document = common_json::parse(std::string(schema));
    EI_RETURN_IF_ERROR(check_value(document));
    return json_schema_to_grammar(document, /*force_gbnf=*/true);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorKind::kMemory, "JSON schema: out of memory");
  } catch (const std::exception& error) {
    return make_error(ErrorKind::kUsage, "JSON schema: %s", one_line(without_tag(error.what())).c_str());
  }
}

}  // namespace ei::text
