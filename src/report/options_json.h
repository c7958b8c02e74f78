// The options of a method as JSON, under the names of their flags; and numbers short enough to be many.
#pragma once

#include <nlohmann/json.hpp>

#include "policy/kv/options.h"
#include "policy/prefill/options.h"

namespace ei::report {

nlohmann::ordered_json prefill_json(const policy::PrefillOptions& options);
nlohmann::ordered_json kv_json(const policy::KvOptions& options);

// Four digits are more than a curve can show, and short to write. Null for what is no number.
nlohmann::ordered_json rounded(double value, int digits = 4);

}  // namespace ei::report
