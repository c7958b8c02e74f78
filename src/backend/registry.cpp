#include <algorithm>
#include <array>

#include "backend/backend.h"
#include "backend/cpu_backend.h"
#include "backend/reference_backend.h"
#ifdef EI_HAVE_CUDA
#include "backend/cuda/cuda_backend.h"
#endif

namespace ei {

namespace {

Status everywhere() { return {}; }

}  // namespace

std::span<const BackendEntry> backends() {
  static constexpr auto kBackends = std::to_array<BackendEntry>({
      {"cpu", "vector kernels for this machine's CPU", create_cpu_backend, everywhere},
#ifdef EI_HAVE_CUDA
      {"cuda", "an NVIDIA GPU of compute capability 8.0 or later", create_cuda_backend, find_cuda_device},
#endif
      {"ggml", "every step as libllama computes it: slow over long texts, for comparisons", create_ggml_backend,
       everywhere},
      {"reference", "slow, obvious, fp32: the oracle of the tests", create_reference_backend, everywhere},
  });
  return kBackends;
}

Result<std::unique_ptr<Backend>> create_backend(std::string_view name, const BackendOptions& options) {
  std::string known;
  for (const BackendEntry& entry : backends()) {
    if (entry.name == name) return entry.create(options);
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return make_error(ErrorKind::kDevice, "unknown backend '%s'; this build has: %s", std::string(name).c_str(),
                    known.c_str());
}

}  // namespace ei
