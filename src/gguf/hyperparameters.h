// The model's shape as the metadata gives it: ranges that every later reader of the file (ours and libllama) relies on.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"

namespace ei::gguf {

class File;

// The values of general.architecture that are accepted. Others are refused here, before libllama's own code for them
// could see the file.
std::span<const std::string_view> supported_architectures();

// Called by File::open().
Status check_hyperparameters(const File& file);

}  // namespace ei::gguf
