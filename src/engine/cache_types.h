// The element types of a session's cache: asked for, or chosen.
#pragma once

#include <optional>

#include "backend/backend.h"
#include "base/result.h"
#include "model/config.h"

namespace ei {

struct CacheTypes {
  DType keys;
  DType values;

  bool quantised() const { return keys == DType::kQ8_0 || values == DType::kQ8_0; }
  // Pages are whole pages of the system. 120 rows of q8_0 keys and values, 255 bytes an element of a head, fill them
  // for every size of a head; 128 would leave up to a third of a page empty.
  int page_slots() const { return quantised() ? 120 : 128; }
};

// What is not asked for is the backend's choice; beside q8_0 it is f16, which the same kernels read.
CacheTypes cache_types(const Backend& backend, std::optional<DType> keys, std::optional<DType> values);
// May this model have such a cache on this backend?
Status check_cache_types(const Backend& backend, const model::Config& config, CacheTypes types);

}  // namespace ei
