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

}  // namespace ei
