#include "base/clock.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>
#include <string>

#include "base/control_groups.h"

namespace ei {

namespace {
// The number in a one-line file such as a control group's limit; -1 when absent or "max".
int64_t read_number(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return -1;
  long long value = -1;
  if (std::fscanf(file, "%lld", &value) != 1) value = -1;
  std::fclose(file);
  return value;
}
// The number behind `name` at the start of a line; 0 when there is none.
int64_t read_field(const std::string& path, const char* name) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return 0;
  char line[256];
  long long value = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, name, std::strlen(name)) == 0) std::sscanf(line + std::strlen(name), "%lld", &value);
  }
  std::fclose(file);
  return value;
}

double read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
}  // namespace

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double process_cpu_s() { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }
double thread_cpu_s() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

int64_t current_rss_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long long total = 0;
  long long resident = 0;
  const int fields = std::fscanf(file, "%lld %lld", &total, &resident);
  std::fclose(file);
  return fields == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

int64_t address_space_bytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int64_t>::max()));
}

int64_t group_memory_bytes(const std::string& membership, const std::string& root) {
  int64_t least = -1;
  for (const ControlGroup& group : control_groups("memory", membership, root)) {
    const bool newer = group.version == 2;
    const auto file = [&](const char* name) { return group.folder + "/" + name; };
    const int64_t limit = read_number(file(newer ? "memory.max" : "memory.limit_in_bytes"));
    const int64_t used = read_number(file(newer ? "memory.current" : "memory.usage_in_bytes"));
    if (limit <= 0 || used < 0) continue;
    // Cached file pages (a mapped model, say) count as used but are given up on demand.
    const int64_t cached = read_field(file("memory.stat"), newer ? "inactive_file " : "total_inactive_file ");
    const int64_t left = std::max<int64_t>(limit - used + cached, 0);
    least = least < 0 ? left : std::min(least, left);
  }
  return least;
}

int64_t available_memory_bytes() {
  int64_t available = -1;
  if (std::FILE* file = std::fopen("/proc/meminfo", "re")) {
    char line[256];
    long long kib = 0;
    while (std::fgets(line, sizeof line, file) != nullptr) {
      if (std::sscanf(line, "MemAvailable: %lld kB", &kib) == 1) available = kib * 1024;
    }
    std::fclose(file);
  }
  if (const int64_t left = group_memory_bytes(); left >= 0)
    available = available < 0 ? left : std::min(available, left);
  if (const int64_t space = address_space_bytes(); space >= 0) {
    const int64_t left = std::max<int64_t>(space - read_number("/proc/self/statm") * sysconf(_SC_PAGESIZE), 0);
    available = available < 0 ? left : std::min(available, left);
  }
  return available;
}

}  // namespace ei
