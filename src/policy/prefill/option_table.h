// The options of sparse prefill methods, each declared once (policy/option_spec.h).
#pragma once

#include <string>
#include <vector>

#include "policy/option_spec.h"
#include "policy/prefill/options.h"

namespace ei::policy {

const std::vector<OptionSpec<PrefillOptions>>& prefill_option_table();

// " name=value" of every option that a method with these reads: what decides differently has another text.
std::string exact_text(const PrefillOptions& options);

}  // namespace ei::policy
