// A line of the access log.
#pragma once

#include <string>

#include "server/http/message.h"

namespace ei::server {

// One JSON object: time, id, method, path, status, bytes, ms. Never a word of a prompt: the query is left out, and the
// path, which is the client's to write, is cut.
std::string access_line(const AccessRecord& record);

}  // namespace ei::server
