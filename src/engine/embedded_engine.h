// The embedded model, loaded once: for tests that need some real engine and do not care how it is set up.
#pragma once

#include <memory>
#include <utility>

#include "engine/engine.h"

namespace ei {

inline const Engine& embedded_engine() {
  static const std::unique_ptr<Engine> loaded = [] {
    EngineOptions options;
    options.model_path = EI_SOURCE_DIR "/assets/needle-14m-128k-q8_0.gguf";
    auto result = Engine::load(options);
    return result.ok() ? std::move(result).value() : nullptr;
  }();
  return *loaded;
}

}  // namespace ei
