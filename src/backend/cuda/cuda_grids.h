// The tables behind weight types whose codes are indices: what four or eight neighbours each index stands for.
#pragma once

#include <cstdint>
#include <vector>

namespace ei {

// [entries, neighbours] of a ggml type, in the units that its codes count in; empty where a type has no such table. It
// is read out of ggml's own decoding, one entry after the other.
std::vector<int8_t> weight_grid(uint32_t ggml_type);

}  // namespace ei
