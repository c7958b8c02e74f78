// Fields: the members of a request's JSON object, read with their types and ranges. The first that is wrong is
// remembered with its name; members that nobody asks for are nobody's business.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api/api_error.h"
#include "server/api/json.h"

namespace ei::server {

// JSON that somebody wrote into a text: discarded (is_discarded()) when it is none, or nested so deep that to walk
// through it would take the stack.
Json parse_inner(const std::string& text);

// The body as an object: kept from nesting beyond 64 levels. The error says where it is no JSON.
struct Body {
  Json json = Json::object();
  std::optional<ApiError> error{};
};
Body parse_body(const std::string& text);

class Fields {
 public:
  // `object` must outlive it.
  explicit Fields(const Json& object) : object_(object) {}

  // Null members count as not given.
  const Json* find(const std::string& name) const;
  bool has(const std::string& name) const { return find(name) != nullptr; }

  double number(const std::string& name, double fallback, double low, double high);
  int64_t whole(const std::string& name, int64_t fallback, int64_t low, int64_t high);
  bool flag(const std::string& name, bool fallback);
  std::string text(const std::string& name, const std::string& fallback = {});
  // A text or a list of texts, of 4 KiB each at most: every answer has a copy of them.
  std::vector<std::string> texts(const std::string& name, size_t most);

  void fail(const std::string& name, const std::string& message);
  void fail(ApiError error);
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const Json& object_;
  std::optional<ApiError> error_{};
};

}  // namespace ei::server
