// Memory that runs out: allocations of one thread fail from a given one on. Not under a sanitizer, which has an
// operator new of its own.
#pragma once

#ifndef EI_SANITIZED
#include <cstdint>
#include <new>

namespace ei::server {

// The next allocations of this thread that succeed before one fails, once; -1: all do.
extern thread_local int64_t allocations_left;

// Repeats `step` with one allocation more each time, until it needs no more than it gets. `check` looks at what a step
// that failed has left. Returns how many failed.
template <typename Step, typename Check>
int fail_every_allocation(const Step& step, const Check& check) {
  for (int failed = 0;; ++failed) {
    allocations_left = failed;
    try {
      step();
      allocations_left = -1;
      return failed;
    } catch (const std::bad_alloc&) {
      allocations_left = -1;
      check();
    }
  }
}

}  // namespace ei::server
#endif
