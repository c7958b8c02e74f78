// Quest (Tang et al., 2024): nothing is evicted, but every generated token reads only the pages of the cache with the
// largest upper bounds. Pure functions of numbers; sparse/page_reader.h carries it out.
#pragma once

#include <algorithm>
#include <cstdint>

#include "policy/kv/options.h"

namespace ei::policy {

// Does the token at `position` read everything in this layer? Page position / page is its own.
inline bool reads_everything(const KvOptions& options, int32_t layer, int64_t position) {
  return options.read == 0 || layer < options.read_skip || position < options.read;
}

// How many of the pages before its own it reads besides.
inline int32_t pages_read(const KvOptions& options, int64_t position) {
  return static_cast<int32_t>(std::min<int64_t>(options.read / options.page - 1, position / options.page));
}

}  // namespace ei::policy
