// The options of sparse prefill methods, each declared once (policy/option_spec.h).
#pragma once

#include <vector>

#include "policy/option_spec.h"
#include "policy/prefill/options.h"

namespace ei::policy {

const std::vector<OptionSpec<PrefillOptions>>& prefill_option_table();

}  // namespace ei::policy
