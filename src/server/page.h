// The page at `/`: its files, in the program, and the answer that carries one.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "server/http/message.h"

namespace ei::server {

struct PageFile {
  std::string_view name{};
  std::string_view text{};
};

// page.html is what `/` shows; the others lie at /page/NAME.
std::span<const PageFile> page_files();

// Nothing where `path` is none of the page's.
std::optional<HttpResponse> page_response(std::string_view path);

}  // namespace ei::server
