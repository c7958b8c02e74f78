// Which other origins' scripts may read answers (CORS). Cookies and the like are never asked for: a script that may
// come in sends its key itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/http/message.h"

namespace ei::server {

// kUsage for one that is neither "*" nor a scheme and a host, as browsers send it.
Status check_origin(const std::string& origin);
// What answers to `request` allow: its origin where it is among `origins`, "*" where that is, else empty.
std::string allowed_origin(const std::vector<std::string>& origins, const HttpRequest& request);
// The answer to a browser that asks before it sends; nothing where `request` is something else.
std::optional<HttpResponse> preflight_response(const HttpRequest& request);

}  // namespace ei::server
