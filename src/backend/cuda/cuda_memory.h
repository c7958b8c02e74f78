// Memory of the GPU and pinned memory of the host, and copies between them that are done when they return.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "tensor/buffer.h"

namespace ei {

Result<Buffer> allocate_device(size_t bytes);
// The device reads and writes it at the same address.
Result<Buffer> allocate_pinned(size_t bytes);
Status copy_and_wait(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
// For tests: of the allocations that follow, the one behind `succeeding` others fails as where memory is short, and so
// do all after it; -1: none does.
void fail_allocations(int64_t succeeding);
// Bytes that allocate_device() could hand out now; -1 when the device does not say.
int64_t free_device_bytes();

}  // namespace ei
