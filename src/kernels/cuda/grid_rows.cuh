// Rows of work beside each other in a grid's second dimension, which ends at 65 535.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ei::kernels::cuda {

inline constexpr int64_t kMostGridRows = 65535;

// The second dimension of a grid for so many rows of work, of which a block then has more than one where they do not
// fit.
constexpr unsigned grid_rows(int64_t rows) {
  return static_cast<unsigned>(rows < kMostGridRows ? rows : kMostGridRows);
}

// Calls work(row) for the rows of a thread's block. All threads of a block have the same ones.
template <typename Work>
__device__ void for_own_rows(int64_t rows, Work work) {
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) work(row);
}

}  // namespace ei::kernels::cuda
