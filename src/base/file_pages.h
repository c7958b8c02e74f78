// Pages of mapped files.
#pragma once

#include <cstddef>
#include <span>

namespace ei {

// Drops the pages of `part`, a piece of `mapping`, which is a read-only mapping of a file, from this process's memory,
// and those around it that came along when it was read. They are read again when touched.
void release_file_pages(std::span<const std::byte> part, std::span<const std::byte> mapping);

}  // namespace ei
