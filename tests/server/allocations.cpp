#include "server/allocations.h"

#ifndef EI_SANITIZED
#include <cstdlib>

namespace ei::server {
thread_local int64_t allocations_left = -1;
}

void* operator new(size_t bytes) {
  const bool refused = ei::server::allocations_left == 0;
  if (ei::server::allocations_left >= 0) --ei::server::allocations_left;
  void* memory = refused ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif
