#include "server/http/foreign_pages.h"

#include <gtest/gtest.h>

namespace ei::server {
namespace {

HttpRequest request(const char* method, const char* host, const char* origin = "") {
  HttpRequest head{.method = method, .path = "/completion"};
  if (*host != '\0') head.headers["host"] = host;
  if (*origin != '\0') head.headers["origin"] = origin;
  return head;
}

TEST(ForeignPages, AnOriginThatPostsIsTheServersOwnOrNamed) {
  const HttpOptions options{.origins = {"https://one.example"}};
  const auto may = [&](const char* host, const char* origin) {
    return why_foreign(options, request("POST", host, origin)).empty();
  };
  EXPECT_TRUE(may("localhost:8080", "")) << "no browser asks";
  EXPECT_TRUE(may("localhost:8080", "http://localhost:8080"));
  EXPECT_TRUE(may("LOCALHOST:8080", "http://localhost:8080"));
  EXPECT_TRUE(may("[::1]:8080", "http://[::1]:8080"));
  EXPECT_TRUE(may("localhost", "http://localhost"));
  EXPECT_TRUE(may("localhost:80", "http://localhost"));
  EXPECT_TRUE(may("localhost:443", "https://localhost"));
  EXPECT_TRUE(may("localhost:8080", "https://one.example"));
  for (const char* origin : {"http://evil.example", "http://localhost:3000", "http://localhost", "null", "https://",
                             "http://one.example", "https://one.example.evil.example", "http://localhost:80800"})
    EXPECT_FALSE(may("localhost:8080", origin)) << origin;
  EXPECT_FALSE(may("", "http://evil.example"));
  EXPECT_TRUE(why_foreign(options, request("GET", "localhost", "http://evil.example")).empty()) << "changes nothing";
  EXPECT_FALSE(why_foreign(options, request("DELETE", "localhost", "http://evil.example")).empty());
}

// Behind a proxy that passes on a Host of its own.
TEST(ForeignPages, WhatTheBrowserSaysOfItsPageCounts) {
  HttpRequest head = request("POST", "workers", "https://front.example");
  EXPECT_FALSE(why_foreign({}, head).empty());
  head.headers["sec-fetch-site"] = "same-origin";
  EXPECT_TRUE(why_foreign({}, head).empty());
  head.headers["sec-fetch-site"] = "cross-site";
  EXPECT_FALSE(why_foreign({}, head).empty());
}

TEST(ForeignPages, WhereOnlyThisMachineCanConnectAHostIsNoNameOfOthers) {
  HttpOptions options{.hosts = {"localhost", "::1"}};
  const auto may = [&](const char* host) { return why_foreign(options, request("GET", host)).empty(); };
  const char* own[] = {"",           "localhost", "localhost:8080", "Localhost", "127.0.0.1:8080", "127.9.9.9",
                       "[::1]:8080", "[::1]",     "a.localhost",    "workers",   "10.0.0.1:80"};
  const char* others[] = {"evil.example",           "evil.example:8080", "127.0.0.1.evil.example",
                          "localhost.evil.example", "127.evil",          "evil.example."};
  for (const char* host : own) EXPECT_TRUE(may(host)) << host;
  for (const char* host : others) EXPECT_FALSE(may(host)) << host;
  options.origins = {"https://evil.example"};
  EXPECT_TRUE(may("evil.example:8080")) << "the operator's own word";
  EXPECT_FALSE(may("worse.example"));
  options.origins = {"*"};
  EXPECT_TRUE(may("worse.example"));
  options = {.hosts = {"127.0.0.1", "0.0.0.0"}};
  for (const char* host : others) EXPECT_TRUE(may(host)) << host;
}

}  // namespace
}  // namespace ei::server
