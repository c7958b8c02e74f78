// Result<T>: a value or an Error. What input can cause travels as a Result; what only a bug can cause is EI_CHECK
// (check.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace ei {

// The kind decides the process exit code (exit_code) and, in a server, the HTTP status.
enum class ErrorKind { kRuntime, kUsage, kModel, kMemory, kDevice, kInterrupted };

// 1 run-time failure, 2 usage, 3 invalid or unsupported model, 4 does not fit in memory, 5 device, 130 interrupted.
int exit_code(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::kRuntime;
  std::string message;  // one line: the values and the cure
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<T>(state_); }
  const T& value() const& { return std::get<T>(state_); }
  T&& value() && { return std::get<T>(std::move(state_)); }
  const Error& error() const { return std::get<Error>(state_); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::get<T>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

// Without line breaks, escape sequences and other control characters, which become question marks: what a file or a
// user wrote, safe for one line of a terminal. UTF-8 stays.
std::string one_line(std::string_view text);

// Printf-style, checked by the compiler.
[[gnu::format(printf, 1, 2)]] std::string str_format(const char* format, ...);
[[gnu::format(printf, 2, 3)]] Error make_error(ErrorKind kind, const char* format, ...);

}  // namespace ei

#define EI_CONCAT_INNER(a, b) a##b
#define EI_CONCAT(a, b) EI_CONCAT_INNER(a, b)
// Leaves the current function with the error of `expression`, a Status or Result.
#define EI_RETURN_IF_ERROR(expression)                                            \
  do {                                                                            \
    if (auto ei_status = (expression); !ei_status.ok()) return ei_status.error(); \
  } while (false)
// EI_ASSIGN_OR_RETURN(auto file, File::open(path));
#define EI_ASSIGN_OR_RETURN(target, expression)                                              \
  auto EI_CONCAT(ei_result_, __LINE__) = (expression);                                       \
  if (!EI_CONCAT(ei_result_, __LINE__).ok()) return EI_CONCAT(ei_result_, __LINE__).error(); \
  target = std::move(EI_CONCAT(ei_result_, __LINE__)).value()
