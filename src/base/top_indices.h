// The indices of the largest values, in a total order: higher value first, lower index first among equals. What is
// chosen depends on the values alone, so every build and every number of threads chooses the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ei {

// Appends the indices of the `count` largest values to `out`, ascending; all of them when count >= values.size().
// NaN ranks below everything. `scratch` is reused between calls.
void append_top_indices(std::span<const float> values, int64_t count, std::vector<uint64_t>& scratch,
                        std::vector<int32_t>& out);

}  // namespace ei
