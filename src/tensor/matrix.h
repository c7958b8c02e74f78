// Views of activations: a pointer into backend memory plus extents. Only the backend and its kernels dereference it.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace ei {

// Row-major f32 activations [rows, cols]; `stride` floats lie between the starts of two rows.
struct Matrix {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  Matrix columns(int64_t begin, int64_t count) const {
    EI_CHECK_LE(begin + count, cols);
    return {data + begin, rows, count, stride};
  }
  Matrix row_range(int64_t begin, int64_t count) const {
    EI_CHECK_LE(begin + count, rows);
    return {data + begin * stride, count, cols, stride};
  }
};

}  // namespace ei
