#include "server/api/api_error.h"

namespace ei::server {

Json ApiError::to_json() const {
  Json error = {{"code", status}, {"message", message}, {"type", type}};
  error["param"] = param.empty() ? Json(nullptr) : Json(param);
  error.update(details);
  return {{"error", std::move(error)}};
}

HttpResponse ApiError::to_response() const {
  HttpResponse response{.status = status, .body = dump(to_json())};
  if (details.contains("retry_after")) response.headers.emplace_back("Retry-After", details["retry_after"].dump());
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

ApiError invalid_field(const std::string& name, const std::string& message) {
  return {.message = "'" + name + "' " + message, .param = name};
}

ApiError from_engine(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kUsage: return {.message = error.message};
    case ErrorKind::kMemory: return unavailable(error.message);
    case ErrorKind::kInterrupted: return unavailable("the server is stopping");
    case ErrorKind::kRuntime:
    case ErrorKind::kModel:
    case ErrorKind::kDevice: break;
  }
  return {.status = 500, .type = "server_error", .message = error.message};
}

ApiError too_busy(int seconds) {
  return {.status = 429,
          .type = "rate_limit_error",
          .message = "the queue is full; try again later",
          .details = {{"retry_after", seconds}}};
}

ApiError too_late(const std::string& message) { return {.status = 504, .type = "timeout_error", .message = message}; }

ApiError unavailable(const std::string& message) {
  return {.status = 503, .type = "unavailable_error", .message = message};
}

ApiError not_supported(const std::string& message) {
  return {.status = 501, .type = "not_supported_error", .message = message};
}

ApiError not_found(const std::string& path) {
  return {.status = 404, .type = "not_found_error", .message = "there is nothing at " + one_line(path).substr(0, 200)};
}

}  // namespace ei::server
