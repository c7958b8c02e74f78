// eval --teacher-forced.
#pragma once

#include "base/result.h"
#include "cli/command.h"

namespace ei::cli {

Result<int> evaluate_forced(const CommandContext& context);

}  // namespace ei::cli
