// How large each of the eight matrix tiles is: at most, and unless told otherwise, 16 rows of 64 bytes.
#pragma once

#include <cstdint>

namespace ei::kernels {

struct TileShapes {
  uint8_t rows[8] = {16, 16, 16, 16, 16, 16, 16, 16};
  uint16_t row_bytes[8] = {64, 64, 64, 64, 64, 64, 64, 64};
};

}  // namespace ei::kernels
