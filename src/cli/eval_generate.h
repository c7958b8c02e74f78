// eval: every method answers the same items, freely and greedily.
#pragma once

#include "base/result.h"
#include "cli/command.h"

namespace ei::cli {

Result<int> evaluate_generated(const CommandContext& context);

}  // namespace ei::cli
