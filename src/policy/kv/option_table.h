// The options of KV methods, each declared once (policy/option_spec.h).
#pragma once

#include <vector>

#include "policy/kv/options.h"
#include "policy/option_spec.h"

namespace ei::policy {

const std::vector<OptionSpec<KvOptions>>& kv_option_table();

}  // namespace ei::policy
