// Memory of the backends whose device is the CPU: anonymous mappings, so that what is released goes back to the system.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "tensor/buffer.h"

namespace ei {

Result<Buffer> allocate_host(size_t bytes);
void discard_host(void* data, size_t bytes);

}  // namespace ei
