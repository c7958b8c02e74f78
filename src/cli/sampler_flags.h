// The samplers of llama.cpp that most people never touch: flags for the fields of text::SamplerOptions.
#pragma once

#include <vector>

#include "cli/options.h"

namespace ei::cli {

std::vector<Option> sampler_flags();

}  // namespace ei::cli
