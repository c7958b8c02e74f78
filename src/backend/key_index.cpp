// What a backend of the CPU keeps to rate blocks by.
#include "backend/backend.h"
#include "kernels/block_scores/cpu/key_panels.h"

namespace ei {

kernels::KeyIndexBytes Backend::key_index_bytes(const kernels::KeyIndexShape& shape, int64_t tokens,
                                                int64_t /*segments*/) const {
  return kernels::key_panel_bytes(shape, tokens);
}

}  // namespace ei
