// --device auto: a GPU where there is one that can be used, else the CPU.
#pragma once

#include <span>
#include <string>

#include "cli/console.h"
#include "cli/settings.h"
#include "engine/engine.h"

namespace ei::cli {

struct DeviceChoice {
  std::string device;
  std::string why;
};
DeviceChoice choose_device(std::span<const BackendEntry> devices);

// Puts a device in the place of auto, and says which and why in one line.
void settle_device(Settings& settings, const Console& console);

}  // namespace ei::cli
