// The CPU backend: records a chunk's operations as one ggml graph (our kernels are custom nodes in it) and runs them on
// one pool of threads. Dense maths by ggml on the weights as stored, or in bf16 by a provider
// (dense_provider.h).
#pragma once

#include "backend/backend.h"

namespace ei {

Result<std::unique_ptr<Backend>> create_cpu_backend(const BackendOptions& options);
// The same with every step by ggml, as libllama has it: for comparisons.
Result<std::unique_ptr<Backend>> create_ggml_backend(const BackendOptions& options);

}  // namespace ei
