#include "server/api/keys.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace ei::server {

namespace {
constexpr std::string_view kBearer = "bearer ";

// The name of a scheme is the same in capitals.
bool says_bearer(std::string_view authorization) {
  return authorization.size() > kBearer.size() &&
         std::equal(kBearer.begin(), kBearer.end(), authorization.begin(),
                    [](char bearer, unsigned char c) { return bearer == std::tolower(c); });
}

bool same(const std::string& given, const std::string& key) {
  // The loop is as long as what was given, which the client knows anyway.
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = key.empty() ? '\0' : key[i % key.size()];
    difference |= static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other));
  }
  return difference == 0;
}
}  // namespace

bool may_enter(const HttpRequest& request, const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  const std::string authorization = request.header("authorization");
  const std::string given =
      says_bearer(authorization) ? authorization.substr(kBearer.size()) : request.header("x-api-key");
  bool found = false;
  for (const std::string& key : keys) found = same(given, key) || found;
  return found && !given.empty();
}

}  // namespace ei::server
