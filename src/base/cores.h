// How many cores this process may use: what its affinity and its control group leave of the machine.
#pragma once

#include <string>

namespace ei {

// Cores that the process's control groups allow it to use at the same time (CPU time per wall time); infinity when none
// sets a quota. `membership` is the file that names the groups, `root` the folder where they are mounted.
double cpu_quota(const std::string& membership = "/proc/self/cgroup", const std::string& root = "/sys/fs/cgroup");

// At least 1. A quota is rounded down: workers wait for each other, so one that is held back holds back all.
int usable_cores();

// Cores of the machine that no other thread wants at this moment, that of the caller included: what /proc/loadavg
// counts as running now, the least of a few glances. All cores where that cannot be read.
int idle_cores(const std::string& loads = "/proc/loadavg");

}  // namespace ei
