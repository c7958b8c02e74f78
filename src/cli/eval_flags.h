// The options of eval, and which of them belong to answers that are generated and which to answers that are read.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/options.h"

namespace ei::cli {

// Entries of the option table.
std::vector<Option> eval_flags();
// kUsage when an option was given that has no meaning with, or without, --teacher-forced.
Status check_eval_mode(const Settings& settings);

}  // namespace ei::cli
