// Elements of KV pages of either layout inside kernels.
#pragma once

#include "kernels/cuda/elements.cuh"
#include "kernels/pages/cuda/device_pages.h"

namespace ei::kernels::cuda {

__device__ inline float page_element(const DevicePages& pages, const void* page, int64_t slot, int32_t dim,
                                     bool value) {
  const auto* from = static_cast<const char*>(page) + pages.bytes_before(value);
  return element_at(from, pages.type(value), pages.element(slot, dim, value));
}

}  // namespace ei::kernels::cuda
