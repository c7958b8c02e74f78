#include "backend/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ei {

namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}

Result<Buffer> allocate_host(size_t bytes) {
  if (bytes == 0) return Buffer();
  // Large memory starts on a huge page where the system has them, so that a long cache needs few address look-ups.
  const bool huge = bytes >= kHugePage;
  const size_t mapped = huge ? bytes + kHugePage : bytes;
  void* data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return make_error(ErrorKind::kMemory, "out of memory: %zu MiB could not be reserved (%s)", bytes >> 20,
                      std::strerror(errno));
  }
  if (huge) {
    auto* first = static_cast<std::byte*>(data);
    const size_t skipped = (kHugePage - reinterpret_cast<uintptr_t>(first) % kHugePage) % kHugePage;
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t kept = (bytes + page - 1) / page * page;
    if (skipped > 0) munmap(first, skipped);
    if (skipped + kept < mapped) munmap(first + skipped + kept, mapped - skipped - kept);
    data = first + skipped;
    madvise(data, bytes, MADV_HUGEPAGE);
  }
  return Buffer(
      data, bytes, [](void* address, size_t size, void*) { munmap(address, size); }, nullptr);
}

void discard_host(void* data, size_t bytes) { madvise(data, bytes, MADV_DONTNEED); }

}  // namespace ei
