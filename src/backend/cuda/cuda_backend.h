// The cuda backend: one NVIDIA GPU. Built with EI_CUDA; without a usable GPU its creation says why.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace ei {

Result<std::unique_ptr<Backend>> create_cuda_backend(const BackendOptions& options);
// An error where create_cuda_backend would fail for want of a GPU.
Status find_cuda_device();

}  // namespace ei
