#include "cli/texts.h"

#include <string_view>

#include "cli/input.h"

namespace ei::cli {

namespace {
int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Status read_into(const std::string& path, const char* what, std::string& text) {
  if (path.empty()) return {};
  EI_ASSIGN_OR_RETURN(text, read_text_file(path, what));
  if (text.empty()) return make_error(ErrorKind::kUsage, "%s %s is empty", what, path.c_str());
  return {};
}
}  // namespace

std::string unescape(const std::string& text) {
  static constexpr std::string_view kNames = "ntr\"'\\";
  static constexpr std::string_view kMeanings = "\n\t\r\"'\\";
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (const size_t known = next == '\0' ? std::string_view::npos : kNames.find(next);
        known != std::string_view::npos) {
      plain += kMeanings[known];
      ++i;
    } else if (next == 'x' && i + 3 < text.size() && hex_digit(text[i + 2]) >= 0 && hex_digit(text[i + 3]) >= 0) {
      plain += static_cast<char>(16 * hex_digit(text[i + 2]) + hex_digit(text[i + 3]));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

Result<Settings> read_texts(Settings settings) {
  if (settings.escape) {
    if (settings.prompt) settings.prompt = unescape(*settings.prompt);
    settings.system_prompt = unescape(settings.system_prompt);
    for (std::string& stop : settings.stop) stop = unescape(stop);
  }
  EI_RETURN_IF_ERROR(read_into(settings.system_prompt_file, "system prompt file", settings.system_prompt));
  EI_RETURN_IF_ERROR(read_into(settings.grammar_file, "grammar file", settings.grammar));
  EI_RETURN_IF_ERROR(read_into(settings.json_schema_file, "JSON schema file", settings.json_schema));
  return settings;
}

}  // namespace ei::cli
