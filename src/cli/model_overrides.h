// What a command line puts in place of a model file's metadata: --override-kv, and the flags for RoPE that stand for
// some of it.
#pragma once

#include <string>

#include "cli/option_values.h"
#include "cli/settings.h"
#include "engine/engine.h"

namespace ei::cli {

// A text that parse_overrides() accepts.
Binding metadata(std::string Settings::*field);

gguf::Overrides model_overrides(const Settings& settings);

}  // namespace ei::cli
