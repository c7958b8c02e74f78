#include "base/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <limits>
#include <thread>

#include "base/control_groups.h"

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

int affinity_cores() {
  std::array<cpu_set_t, 8> sets{};  // 8192 cores
  if (sched_getaffinity(0, sizeof sets, sets.data()) == 0) return CPU_COUNT_S(sizeof sets, sets.data());
  return static_cast<int>(std::thread::hardware_concurrency());
}

// "0.20 0.18 0.12 2/80 11206": two of 80 threads run. -1: not such a file.
int running_threads(const std::string& loads) {
  std::ifstream file(loads);
  double mean = 0;
  int running = 0;
  return file >> mean >> mean >> mean >> running && file.get() == '/' ? running : -1;
}
}  // namespace

double cpu_quota(const std::string& membership, const std::string& root) {
  double least = kNoQuota;
  for (const ControlGroup& group : control_groups("cpu", membership, root))
    least = std::min(least, group.version == 2 ? quota_v2(group.folder) : quota_v1(group.folder));
  return least;
}

int usable_cores() {
  const int cores = std::max(affinity_cores(), 1);
  const double quota = cpu_quota();
  return quota < cores ? std::max(static_cast<int>(quota), 1) : cores;
}

int idle_cores(const std::string& loads) {
  constexpr int kGlances = 3;  // many threads run for a moment only
  constexpr std::chrono::milliseconds kBetween{1};
  const int cores = static_cast<int>(std::max<long>(::sysconf(_SC_NPROCESSORS_ONLN), 1));
  int idle = 0;
  for (int glance = 0; glance < kGlances && idle < cores; ++glance) {
    if (glance > 0) std::this_thread::sleep_for(kBetween);
    const int others = std::max(running_threads(loads) - 1, 0);
    idle = std::max(idle, cores - others);
  }
  return idle;
}

}  // namespace ei
