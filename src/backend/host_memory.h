// Memory of the backends whose device is the CPU: anonymous mappings, so that what is released goes back to the system.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "tensor/buffer.h"

namespace ei {

Result<Buffer> allocate_host(size_t bytes);
void discard_host(void* data, size_t bytes);
constexpr size_t kHugePage = size_t{2} << 20;
size_t to_next_huge_page(const void* data);  // bytes; 0 on its beginning
// Asks for huge pages where whole ones lie inside this memory, which nobody has touched yet.
void prefer_huge_pages(void* data, size_t bytes);

}  // namespace ei
