// JSON as the API writes and reads it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ei::server {

using Json = nlohmann::ordered_json;

// On one line; bytes that are no UTF-8 become U+FFFD.
inline std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A server-sent event.
inline std::string event_text(const Json& json) { return "data: " + dump(json) + "\n\n"; }
inline std::string event_text(const std::string& name, const Json& json) {
  return "event: " + name + "\n" + event_text(json);
}

}  // namespace ei::server
