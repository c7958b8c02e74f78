// Switches that who knows llama.cpp types by habit. What they ask for is so, or cannot be: they are taken, with a note.
#pragma once

#include <vector>

#include "cli/options.h"

namespace ei::cli {

std::vector<Option> llama_switches();

}  // namespace ei::cli
