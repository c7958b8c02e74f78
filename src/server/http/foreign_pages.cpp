#include "server/http/foreign_pages.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <string_view>

#include "server/http/cors.h"

namespace ei::server {

namespace {
std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

struct Origin {
  std::string scheme{};
  std::string place{};  // host and port
};

// "null" and the like have no place.
Origin parse_origin(const std::string& origin) {
  const size_t end = origin.find("://");
  if (end == std::string::npos) return {};
  return {.scheme = lower(origin.substr(0, end)), .place = lower(origin.substr(end + 3))};
}

std::string without(std::string text, std::string_view end) {
  if (text.ends_with(end)) text.resize(text.size() - end.size());
  return text;
}

// "[::1]:8080" is "::1".
std::string host_of(std::string_view place) {
  if (place.starts_with('[')) return std::string(place.substr(1, place.find(']') - 1));
  return std::string(place.substr(0, place.find(':')));
}

bool is_address(const std::string& host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  return !error;
}

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return !error && address.is_loopback();
}

bool own_origin(const std::string& given, const HttpRequest& head) {
  if (head.header("sec-fetch-site") == "same-origin") return true;  // no page can say so itself
  const Origin origin = parse_origin(given);
  const char* port = origin.scheme == "https" ? ":443" : ":80";  // may be left out
  return !origin.place.empty() && without(origin.place, port) == without(lower(head.header("host")), port);
}

// A name is given to an address by whoever owns its domain: names of the machine itself, those without a domain and
// addresses belong to nobody else.
bool own_host(const HttpOptions& options, const HttpRequest& head) {
  const std::string place = lower(head.header("host"));
  const std::string host = host_of(place);
  if (is_address(host) || host.find('.') == std::string::npos || host.ends_with(".localhost")) return true;
  return std::any_of(options.origins.begin(), options.origins.end(),
                     [&](const std::string& origin) { return host_of(parse_origin(origin).place) == host; });
}

bool may_change_something(const HttpRequest& head) {
  return head.method != "GET" && head.method != "HEAD" && head.method != "OPTIONS";
}
}  // namespace

std::string why_foreign(const HttpOptions& options, const HttpRequest& head) {
  const auto open_to = [&](const char* origin) {
    return std::find(options.origins.begin(), options.origins.end(), origin) != options.origins.end();
  };
  if (open_to("*")) return {};
  const std::string origin = head.header("origin");
  const bool foreign = !origin.empty() && !own_origin(origin, head) && allowed_origin(options.origins, head).empty();
  if (foreign && may_change_something(head))
    return "pages of " + one_line(origin).substr(0, 200) +
           " may not use this server: name them with --cors-origin, or give it an API key";
  if (std::all_of(options.hosts.begin(), options.hosts.end(), is_loopback) && !own_host(options, head))
    return "this server is not " + one_line(head.header("host")).substr(0, 200) +
           ": ask localhost, name the origin with --cors-origin, or give it an API key";
  return {};
}

}  // namespace ei::server
