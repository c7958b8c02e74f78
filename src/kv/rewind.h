// Where a conversation may be taken back to when its cache has been compressed.
#pragma once

#include <cstdint>
#include <span>

#include "kv/store.h"

namespace ei::kv {

// The last position <= `position` at which the store may be truncated and read on from. It is `position` itself when
// every layer holds all that a query there would see, or when it lies behind the last gap of every kv_head: then the
// same survivors serve. Otherwise it is where the first gap begins: what was dropped had been dropped for queries that
// are forgotten now, so the text must be read again from there.
// `windows` [layers]: sliding window of the layer, 0 without one.
int32_t rewind_point(const Store& store, std::span<const int32_t> windows, int32_t position);

}  // namespace ei::kv
