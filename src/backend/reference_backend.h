// The reference backend: plain loops in fp32, single-threaded, every operation done when it is called.
#pragma once

#include "backend/backend.h"

namespace ei {

Result<std::unique_ptr<Backend>> create_reference_backend(const BackendOptions& options);

}  // namespace ei
