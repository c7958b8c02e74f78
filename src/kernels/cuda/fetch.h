// Small host data into device memory by a kernel that reads pinned memory. A copy of the driver's own is done by
// another engine, for which the stream waits some 10 us in front of it and behind it.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace ei::kernels::cuda {

// Both 16-byte aligned, with room for a multiple of 16 bytes.
Status launch_fetch(const void* pinned, void* to, size_t bytes, void* stream);

}  // namespace ei::kernels::cuda
