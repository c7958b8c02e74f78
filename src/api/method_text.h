// "base-budget=512,kv-budget=1024": options of a method as one text.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/method_choice.h"

namespace ei::api {

// kUsage for a part without a '=' and a name that no method has.
Result<std::map<std::string, std::string>> method_options(std::string_view text);

}  // namespace ei::api
