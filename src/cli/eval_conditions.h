// What the results of generated answers depend on beside their item and method.
#pragma once

#include <string>

#include "cli/settings.h"
#include "engine/engine.h"

namespace ei::cli {

// At how many places facts stand: not asked for, so many that the items that there are spread over the text.
int64_t eval_depths(const Settings& settings);

// A line of JSON: a folder of results goes on under the same one only.
std::string eval_conditions(const Settings& settings, const Engine& engine);

}  // namespace ei::cli
