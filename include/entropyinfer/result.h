// Result<T>: a value or an Error. What input can cause comes back as a Result; nothing is thrown by the library.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "entropyinfer/c_api.h"

namespace entropyinfer {

struct Error {
  EiStatus kind = EI_RUNTIME;
  std::string message{};  // one line: the values and the cure
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  // The value; only where there is one.
  T& operator*() & { return std::get<T>(state_); }
  const T& operator*() const& { return std::get<T>(state_); }
  T&& operator*() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }
  // Only where there is one.
  const Error& error() const { return std::get<Error>(state_); }

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
  std::optional<Error> error_{};
};

using Status = Result<void>;

namespace detail {
// What a call that failed said.
inline Error failure(EiStatus status) { return {status, ei_last_error()}; }
inline Status checked(EiStatus status) { return status == EI_OK ? Status() : Status(failure(status)); }
inline const char* text_or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }
}  // namespace detail

}  // namespace entropyinfer
