// Two settings of the engine that are compared on the same tokens (--vs).
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "cli/console.h"
#include "cli/settings.h"
#include "engine/engine.h"

namespace ei::cli {

struct Side {
  Settings settings;
  const Engine* engine = nullptr;
};

struct Sides {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Engine> second;  // only when the other side needs another model, device or number of threads
  Side base;
  std::optional<Side> other;
};
// kUsage when the two models have different vocabularies.
Result<Sides> load_sides(const Settings& base, const std::optional<Settings>& other, const Console& console);

}  // namespace ei::cli
