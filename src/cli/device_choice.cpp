#include "cli/device_choice.h"

#include <algorithm>

namespace ei::cli {

DeviceChoice choose_device(std::span<const BackendEntry> devices) {
  constexpr std::string_view kGpu = "cuda";
  const auto gpu =
      std::find_if(devices.begin(), devices.end(), [&](const BackendEntry& entry) { return entry.name == kGpu; });
  if (gpu == devices.end()) return {"cpu", "this build has no " + std::string(kGpu) + " backend"};
  const Status usable = gpu->usable();
  if (usable.ok()) return {std::string(kGpu), "there is a GPU that it can use"};
  // Without the cure, which is what happens.
  const std::string& message = usable.error().message;
  return {"cpu", message.substr(0, message.rfind("; take "))};
}

void settle_device(Settings& settings, const Console& console) {
  if (settings.device != "auto") return;
  const DeviceChoice choice = choose_device(backends());
  settings.device = choice.device;
  console.note("--device auto takes " + choice.device + ": " + choice.why);
}

}  // namespace ei::cli
