// Who may ask: keys from the operator against what a request carries.
#pragma once

#include <string>
#include <vector>

#include "server/http/message.h"

namespace ei::server {

// "Authorization: Bearer KEY" or "X-Api-Key: KEY"; compared in a time that does not depend on where they differ.
bool may_enter(const HttpRequest& request, const std::vector<std::string>& keys);

}  // namespace ei::server
