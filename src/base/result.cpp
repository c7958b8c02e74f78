#include "base/result.h"

#include <cstdarg>
#include <cstdio>

namespace ei {

namespace {
std::string format_list(const char* format, va_list arguments) {
  va_list copy;
  va_copy(copy, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  if (length <= 0) return {};
  std::string text(static_cast<size_t>(length), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}
}  // namespace

std::string str_format(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = format_list(format, arguments);
  va_end(arguments);
  return text;
}

Error make_error(ErrorKind kind, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Error error{kind, format_list(format, arguments)};
  va_end(arguments);
  return error;
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kRuntime: return 1;
    case ErrorKind::kUsage: return 2;
    case ErrorKind::kModel: return 3;
    case ErrorKind::kMemory: return 4;
    case ErrorKind::kDevice: return 5;
    case ErrorKind::kInterrupted: return 130;
  }
  return 1;
}

std::string one_line(std::string_view text) {
  std::string line(text);
  for (size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (byte < ' ' || byte == 0x7f) line[i] = '?';
    // U+0080 to U+009F: some terminals take them for the beginning of a sequence.
    const bool wide = byte == 0xc2 && i + 1 < line.size() && (static_cast<unsigned char>(line[i + 1]) & 0xe0) == 0x80;
    if (wide) line.replace(i, 2, "?");
  }
  return line;
}

}  // namespace ei
