// Which web pages' requests are answered where nobody needs a key: a browser sends those of any page, and CORS keeps
// the page from no more than the answer.
#pragma once

#include <string>

#include "server/http/http_server.h"

namespace ei::server {

// Why `head` is refused; empty where it is not. What does not come from a browser is not touched.
//  - What may change something (anything but GET, HEAD, OPTIONS) has no Origin, the server's own or one of
//    `options.origins`.
//  - Where only this machine can connect, Host is no name that somebody else's DNS may point here by now.
std::string why_foreign(const HttpOptions& options, const HttpRequest& head);

}  // namespace ei::server
