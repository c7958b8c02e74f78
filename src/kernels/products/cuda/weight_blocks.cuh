// The weight types of model files that kernels decode. One struct per type: weights per block, bytes per block, weight
// i of a block; and for those that are kept for generation, the code of weight i and the scale (and offset) it shares.
#pragma once

#include "kernels/products/cuda/weight_blocks_grid.cuh"
#include "kernels/products/cuda/weight_blocks_long.cuh"
#include "kernels/products/cuda/weight_blocks_short.cuh"

namespace ei::kernels::cuda {

template <typename Type>
Type with_grid(const int8_t* grid) {
  Type type;
  type.grid = grid;
  return type;
}

// Calls use(type) with the struct of a ggml type; false when there is none.
template <typename Use>
bool with_coded_type(const FileType& type, Use use) {
  switch (type.ggml) {
    case 2: use(WeightQ4_0{}); return true;
    case 3: use(WeightQ4_1{}); return true;
    case 6: use(WeightQ5_0{}); return true;
    case 7: use(WeightQ5_1{}); return true;
    case 8: use(WeightQ8_0{}); return true;
    case 10: use(WeightQ2_K{}); return true;
    case 11: use(WeightQ3_K{}); return true;
    case 12: use(WeightQ4_K{}); return true;
    case 13: use(WeightQ5_K{}); return true;
    case 14: use(WeightQ6_K{}); return true;
    case 16: use(with_grid<WeightIQ2_XXS>(type.grid)); return true;
    case 17: use(with_grid<WeightIQ2_XS>(type.grid)); return true;
    case 18: use(with_grid<WeightIQ3_XXS>(type.grid)); return true;
    case 19: use(with_grid<WeightIQ1_S>(type.grid)); return true;
    case 20: use(WeightIQ4_NL{}); return true;
    case 21: use(with_grid<WeightIQ3_S>(type.grid)); return true;
    case 22: use(with_grid<WeightIQ2_S>(type.grid)); return true;
    case 23: use(WeightIQ4_XS{}); return true;
    case 29: use(with_grid<WeightIQ1_M>(type.grid)); return true;
    case 34: use(WeightTQ1_0{}); return true;
    case 35: use(WeightTQ2_0{}); return true;
    case 40: use(WeightNVFP4{}); return true;
    case 41: use(WeightQ1_0{}); return true;
    case 42: use(WeightQ2_0{}); return true;
    default: return false;
  }
}
template <typename Use>
bool with_weight_type(const FileType& type, Use use) {
  switch (type.ggml) {
    case 0: use(WeightF32{}); return true;
    case 1: use(WeightF16{}); return true;
    case 30: use(WeightBF16{}); return true;
    case 39: use(WeightMXFP4{}); return true;
    default: return with_coded_type(type, use);
  }
}

}  // namespace ei::kernels::cuda
