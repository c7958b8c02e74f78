// How the kernel benchmarks take time: the best of many calls, one thread by its processor seconds, several by the
// wall.
#pragma once

#include <algorithm>
#include <ctime>
#include <functional>

#include "base/clock.h"
#include "base/thread_pool.h"

namespace ei {

inline double processor_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Best time of one call over at least min_seconds of calls.
inline double best_seconds(const ThreadPool& pool, double min_seconds, const std::function<void()>& call) {
  const auto clock = pool.size() == 1 ? processor_s : now_s;
  double best = 1e30;
  for (double spent = 0; spent < min_seconds;) {
    const double start = clock();
    call();
    const double elapsed = clock() - start;
    best = std::min(best, elapsed);
    spent += elapsed;
  }
  return best;
}

}  // namespace ei
