// The flags of serve.
#pragma once

#include <vector>

#include "cli/options.h"

namespace ei::cli {

std::vector<Option> serve_flags();

}  // namespace ei::cli
