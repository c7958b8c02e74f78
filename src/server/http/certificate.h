// Will these certificate files do? Asked before anything that takes time.
#pragma once

#include <string>

#include "base/result.h"

namespace ei::server {

// kUsage where they will not. Both empty: no TLS.
Status check_certificate(const std::string& certificate_file, const std::string& key_file);

}  // namespace ei::server
