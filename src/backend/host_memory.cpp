#include "backend/host_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace ei {

Result<Buffer> allocate_host(size_t bytes) {
  if (bytes == 0) return Buffer();
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return make_error(ErrorKind::kMemory, "out of memory: %zu MiB could not be reserved (%s)", bytes >> 20,
                      std::strerror(errno));
  }
  return Buffer(
      data, bytes, [](void* address, size_t size, void*) { munmap(address, size); }, nullptr);
}

void discard_host(void* data, size_t bytes) { madvise(data, bytes, MADV_DONTNEED); }

}  // namespace ei
