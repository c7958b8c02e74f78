// Which GPUs are new enough. Needs nothing of CUDA, so that builds without it test it too.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ei {

// kDevice where the kernels do not run on a GPU of compute capability major.minor.
inline Status check_capability(std::string_view name, int major, int minor) {
  constexpr int kLeastMajor = 8;  // mma.sync in bf16, asynchronous copies
  if (major >= kLeastMajor) return {};
  return make_error(ErrorKind::kDevice, "the GPU '%s' has compute capability %d.%d, %d.0 is needed; take --device cpu",
                    std::string(name).c_str(), major, minor, kLeastMajor);
}

}  // namespace ei
