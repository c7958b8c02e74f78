// A model file, checked as far as it can be without loading it: its hyper-parameters, and the names, shapes and types
// of its tensors. Every error names the file.
#pragma once

#include <string>

#include "base/result.h"
#include "gguf/file.h"
#include "model/config.h"

namespace ei::model {

struct ModelFile {
  gguf::File file;
  Config config;
};

// `copy`: as gguf::File::open().
Result<ModelFile> open_model(const std::string& path, const gguf::Overrides& overrides = {}, bool copy = false);

}  // namespace ei::model
