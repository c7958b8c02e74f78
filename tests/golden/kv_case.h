// What a case says about a KV method.
#pragma once

#include <string>

#include "golden/manifest.h"
#include "policy/kv/options.h"

namespace ei::golden {

// The preset of the case's method with the parameters of the case.
policy::KvOptions read_kv_options(const Json& golden_case);
policy::GroupAggregate read_aggregate(const std::string& name);  // "mean", "max"

}  // namespace ei::golden
