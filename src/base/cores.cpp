#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

namespace ei {

namespace {
constexpr double kNoQuota = std::numeric_limits<double>::infinity();

double ratio(int64_t quota_us, int64_t period_us) {
  return quota_us > 0 && period_us > 0 ? static_cast<double>(quota_us) / static_cast<double>(period_us) : kNoQuota;
}

// Version 2, one file: "150000 100000", or "max 100000" where there is no quota.
double quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  int64_t quota = 0;
  int64_t period = 0;
  return file >> quota >> period ? ratio(quota, period) : kNoQuota;
}

// Version 1, two files; a quota of -1 is none.
double quota_v1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  int64_t quota = 0;
  int64_t period = 0;
  return quota_file >> quota && period_file >> period ? ratio(quota, period) : kNoQuota;
}

// The tightest quota from `group` up to the root: each holds for all below it. Inside a container the groups above its
// own root are named but not there; those levels say nothing.
double tightest(double (*quota_of)(const std::string&), const std::string& mount, std::string group) {
  double least = quota_of(mount);
  while (!group.empty() && group != "/") {
    least = std::min(least, quota_of(mount + group));
    group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
  return least;
}

bool names_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

int affinity_cores() {
  std::array<cpu_set_t, 8> sets{};  // 8192 cores
  if (sched_getaffinity(0, sizeof sets, sets.data()) == 0) return CPU_COUNT_S(sizeof sets, sets.data());
  return static_cast<int>(std::thread::hardware_concurrency());
}
}  // namespace

double cpu_quota(const std::string& membership, const std::string& root) {
  std::ifstream file(membership);
  double least = kNoQuota;
  for (std::string line; std::getline(file, line);) {  // hierarchy:controllers:group
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(least, tightest(quota_v2, root, group));
    } else if (names_cpu(controllers)) {
      for (const std::string& mount : {"/" + controllers, std::string("/cpu")}) {
        least = std::min(least, tightest(quota_v1, root + mount, group));
      }
    }
  }
  return least;
}

int usable_cores() {
  const int cores = std::max(affinity_cores(), 1);
  const double quota = cpu_quota();
  return quota < cores ? std::max(static_cast<int>(quota), 1) : cores;
}

}  // namespace ei
