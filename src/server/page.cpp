#include "server/page.h"

namespace ei::server {

namespace {
// Nothing but what this server sends is loaded, run or talked to, and nobody may frame the page.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const char* type_of(std::string_view name) {
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  return name.ends_with(".js") ? "text/javascript; charset=utf-8" : "text/html; charset=utf-8";
}
}  // namespace

std::optional<HttpResponse> page_response(std::string_view path) {
  constexpr std::string_view kFolder = "/page/";
  const std::string_view name = path == "/" || path == "/index.html" ? "page.html"
                                : path.starts_with(kFolder)          ? path.substr(kFolder.size())
                                                                     : std::string_view();
  for (const PageFile& file : page_files()) {
    if (file.name != name) continue;
    HttpResponse response{.content_type = type_of(name), .body = std::string(file.text)};
    response.headers = {{"Content-Security-Policy", kPolicy},
                        {"X-Content-Type-Options", "nosniff"},
                        {"Referrer-Policy", "no-referrer"},
                        {"Cache-Control", "no-cache"}};
    return response;
  }
  return std::nullopt;
}

}  // namespace ei::server
