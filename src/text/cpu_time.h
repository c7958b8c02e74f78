// CPU seconds of this thread: limits that hold on a busy machine too.
#pragma once

#include <ctime>

namespace ei::text {

inline double thread_cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace ei::text
