#include "cli/version.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/result.h"
#include "ei_build.h"  // written by version.cmake at build time

namespace ei::cli {

namespace {
// The Arm parts servers run on; the kernel gives numbers where x86 gives a name.
std::string arm_name(long implementer, long part) {
  struct Part {
    long id;
    const char* name;
  };
  constexpr Part kArmParts[] = {{0xd08, "Cortex-A72"},  {0xd0b, "Cortex-A76"},  {0xd0c, "Neoverse-N1"},
                                {0xd40, "Neoverse-V1"}, {0xd49, "Neoverse-N2"}, {0xd4f, "Neoverse-V2"},
                                {0xd8e, "Neoverse-N3"}, {0xd84, "Neoverse-V3"}};
  if (implementer == 0x41) {
    for (const Part& known : kArmParts) {
      if (known.id == part) return known.name;
    }
  }
  return str_format("Arm CPU (implementer 0x%lx, part 0x%lx)", implementer, part);
}

std::string model_name() {
  std::FILE* file = std::fopen("/proc/cpuinfo", "re");
  if (file == nullptr) return "unknown CPU";
  char line[512];
  std::string name;
  long implementer = -1;
  long part = -1;
  while (name.empty() && std::fgets(line, sizeof line, file) != nullptr) {
    const char* colon = std::strchr(line, ':');
    if (colon == nullptr) continue;
    const std::string_view key(line);
    if (key.starts_with("model name")) name = std::string(colon + 2, std::strcspn(colon + 2, "\n"));
    if (key.starts_with("CPU implementer")) implementer = std::strtol(colon + 1, nullptr, 0);
    if (key.starts_with("CPU part")) part = std::strtol(colon + 1, nullptr, 0);
  }
  std::fclose(file);
  if (!name.empty()) return name;
  return part >= 0 ? arm_name(implementer, part) : "unknown CPU";
}
}  // namespace

std::string version() { return EI_BUILD_VERSION; }
std::string build_commit() { return EI_BUILD_COMMIT; }
std::string version_text() { return "entropyinfer " + version() + " (" + build_commit() + ")"; }
std::string cpu_name() { return str_format("%s, %ld cores", model_name().c_str(), sysconf(_SC_NPROCESSORS_ONLN)); }

}  // namespace ei::cli
