// Time and memory readings for statistics.
#pragma once

#include <cstdint>
#include <string>

namespace ei {

double now_s();                 // monotonic, seconds
double process_cpu_s();         // seconds that the threads of this process have run, added up
double thread_cpu_s();          // seconds that this thread has run: for limits that hold on a busy machine too
int64_t peak_rss_bytes();       // highest resident memory of this process so far
int64_t current_rss_bytes();    // resident memory now
int64_t address_space_bytes();  // what ulimit -v allows this process; -1: anything
// What is left to this process below the limits of its control groups; -1: there are none. As in cores.h.
int64_t group_memory_bytes(const std::string& membership = "/proc/self/cgroup",
                           const std::string& root = "/sys/fs/cgroup");
int64_t available_memory_bytes();  // what the system, this process's control group and its limit can still give

}  // namespace ei
