// The methods of --methods as sessions.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/settings.h"
#include "eval/run/generation.h"

namespace ei::cli {

Result<std::vector<eval::MethodSpec>> eval_method_specs(const Settings& settings);

}  // namespace ei::cli
