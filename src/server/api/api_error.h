// ApiError: what went wrong, as clients of OpenAI's API expect to read it.
#pragma once

#include <string>

#include "base/result.h"
#include "server/api/json.h"
#include "server/http/message.h"

namespace ei::server {

struct ApiError {
  int status = 400;
  std::string type = "invalid_request_error";
  std::string message{};
  std::string param{};            // the field at fault; empty: none
  Json details = Json::object();  // more members of the error object

  Json to_json() const;  // {"error": {...}}
  HttpResponse to_response() const;
};

ApiError invalid_field(const std::string& name, const std::string& message);
// The engine's errors: what the request caused is 400, what the machine lacks 503, the rest 500.
ApiError from_engine(const Error& error);
ApiError too_busy(int seconds);
// The request's time is over. Not 408: that would blame the client's sending, and browsers ask again by themselves.
ApiError too_late(const std::string& message);
ApiError unavailable(const std::string& message);
ApiError not_supported(const std::string& message);
ApiError not_found(const std::string& path);

}  // namespace ei::server
