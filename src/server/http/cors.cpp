#include "server/http/cors.h"

#include <algorithm>

namespace ei::server {

Status check_origin(const std::string& origin) {
  const size_t scheme = origin.find("://");
  const bool named = scheme != std::string::npos && scheme > 0 && scheme + 3 < origin.size();
  const bool bare = named && origin.find_first_of("/*?# ", scheme + 3) == std::string::npos;
  if (origin == "*" || bare) return {};
  return make_error(ErrorKind::kUsage, "'%s' is no origin: write https://example.org, without a path, or *",
                    one_line(origin).c_str());
}

std::string allowed_origin(const std::vector<std::string>& origins, const HttpRequest& request) {
  const auto given = [&](const std::string& origin) {
    return std::find(origins.begin(), origins.end(), origin) != origins.end();
  };
  const std::string origin = request.header("origin");
  if (origin.empty()) return {};
  if (given("*")) return "*";
  return given(origin) ? origin : std::string();
}

std::optional<HttpResponse> preflight_response(const HttpRequest& request) {
  if (request.method != "OPTIONS" || request.header("access-control-request-method").empty()) return std::nullopt;
  HttpResponse response;
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"}, {"Access-Control-Max-Age", "600"}};
  // "*" would not stand for Authorization.
  if (const std::string asked = request.header("access-control-request-headers"); !asked.empty())
    response.headers.emplace_back("Access-Control-Allow-Headers", asked);
  return response;
}

}  // namespace ei::server
