// What an Engine holds. Private to the engine room.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "model/model.h"

namespace ei {

struct Engine::State {
  gguf::File file;  // first: the weights point into its mapping
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<Backend> backend;
  model::Model model;
  int64_t weight_bytes = 0;
  uint64_t model_hash = 0;
  double load_s = 0;
};

}  // namespace ei
