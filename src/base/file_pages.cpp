#include "base/file_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace ei {

void release_file_pages(std::span<const std::byte> part, std::span<const std::byte> mapping) {
  if (part.empty() || mapping.empty()) return;
  // Linux maps the cached pages of such a window around the one that is touched.
  const auto window = std::max<uintptr_t>(static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)), uintptr_t{64} << 10);
  const auto first = reinterpret_cast<uintptr_t>(part.data());
  const auto mapped = reinterpret_cast<uintptr_t>(mapping.data());
  const uintptr_t begin = std::max(first / window * window, mapped);
  const uintptr_t end = std::min((first + part.size() + window - 1) / window * window, mapped + mapping.size());
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace ei
