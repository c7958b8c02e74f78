// Control groups of this process: where the limits stand that a container or a service manager sets.
#pragma once

#include <string>
#include <vector>

namespace ei {

struct ControlGroup {
  int version = 0;     // 1 or 2: they name their files differently
  std::string folder;  // may not exist: inside a container the groups above its own root are named but not there
};
// The groups that govern `controller` ("cpu", "memory"), from the process's own up to the root: the limits of each hold
// for all below it.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const std::string& membership = "/proc/self/cgroup",
                                         const std::string& root = "/sys/fs/cgroup");

}  // namespace ei
