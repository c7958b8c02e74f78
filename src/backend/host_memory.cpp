#include "backend/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/clock.h"

namespace ei {

namespace {
// Memory handed out earlier may not have been touched yet, and a system that has none left kills.
constexpr int64_t kMarginBytes = int64_t{32} << 20;

// Mapping succeeds as long as there are addresses; whether there is memory behind them shows when it is too late.
Status check_available(size_t bytes) {
  const int64_t available = available_memory_bytes();
  if (available < 0 || static_cast<int64_t>(bytes) <= available - kMarginBytes) return {};
  return make_error(ErrorKind::kMemory, "out of memory: %zu MiB needed, %lld MiB available", bytes >> 20,
                    static_cast<long long>(available >> 20));
}
}  // namespace

size_t to_next_huge_page(const void* data) {
  return (kHugePage - reinterpret_cast<uintptr_t>(data) % kHugePage) % kHugePage;
}

Result<Buffer> allocate_host(size_t bytes) {
  if (bytes == 0) return Buffer();
  // Large memory starts on a huge page where the system has them, so that a long cache needs few address look-ups.
  const bool huge = bytes >= kHugePage;
  if (huge) EI_RETURN_IF_ERROR(check_available(bytes));
  const size_t mapped = huge ? bytes + kHugePage : bytes;
  void* data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return make_error(ErrorKind::kMemory, "out of memory: %zu KiB could not be reserved (%s)", bytes >> 10,
                      std::strerror(errno));
  }
  if (huge) {
    auto* first = static_cast<std::byte*>(data);
    const size_t skipped = to_next_huge_page(first);
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

void prefer_huge_pages(void* data, size_t bytes) {
  auto* first = static_cast<std::byte*>(data);
  const size_t skipped = to_next_huge_page(first);
  if (skipped >= bytes) return;
  const size_t whole = (bytes - skipped) / kHugePage * kHugePage;
  if (whole > 0) madvise(first + skipped, whole, MADV_HUGEPAGE);
}

void discard_host(void* data, size_t bytes) { madvise(data, bytes, MADV_DONTNEED); }

}  // namespace ei
