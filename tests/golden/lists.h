// Are our lists the golden ones? Ties must match; a cut that float32 cannot place may fall anywhere inside its band.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "golden/manifest.h"

namespace ei::golden {

// The row of an `ambiguous` entry in the lists it belongs to.
using RowOf = std::function<size_t(const Json& entry)>;

// Compares list by list and reports every difference to gtest. Returns the golden lists.
Lists expect_lists(const Manifest& manifest, const Json& golden, const std::vector<std::vector<int32_t>>& ours,
                   const RowOf& row_of);

}  // namespace ei::golden
