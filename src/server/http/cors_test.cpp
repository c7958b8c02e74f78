#include "server/http/cors.h"

#include <gtest/gtest.h>

namespace ei::server {
namespace {

TEST(Cors, AnOriginIsASchemeAndAHost) {
  for (const char* good : {"*", "https://example.org", "http://localhost:3000", "http://[::1]:80", "app://page"})
    EXPECT_TRUE(check_origin(good).ok()) << good;
  for (const char* bad : {"", "example.org", "https://", "://x", "https://example.org/", "https://*.example.org",
                          "https://example.org?x", "null", "**"})
    EXPECT_FALSE(check_origin(bad).ok()) << bad;
}

TEST(Cors, OriginsAreTheSameByEveryByte) {
  const auto allowed = [](const std::vector<std::string>& origins, const std::string& origin) {
    return allowed_origin(origins, {.headers = {{"origin", origin}}});
  };
  EXPECT_EQ(allowed({"https://a", "https://b"}, "https://b"), "https://b");
  EXPECT_EQ(allowed({"https://a"}, "https://A"), "");
  EXPECT_EQ(allowed({"https://a"}, "https://a:443"), "");
  EXPECT_EQ(allowed({"https://a", "*"}, "https://x"), "*");
  EXPECT_EQ(allowed({}, "https://x"), "");
  EXPECT_EQ(allowed_origin({"*"}, {}), "") << "no browser asks";
}

}  // namespace
}  // namespace ei::server
