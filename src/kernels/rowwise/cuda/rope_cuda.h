// Angles of the rotary embedding on a GPU, in the order of operations of tensor/rope.h.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "tensor/rope.h"

namespace ei::kernels::cuda {

struct DeviceAngles {
  RopeTurn turn;
  float frequency_scale = 1;
  float ext_factor = 0;
  const float* factors = nullptr;           // [dims / 2] on the device, or null
  const int32_t* first_position = nullptr;  // one number on the device: it differs from token to token
  int64_t tokens = 0;
  int32_t dims = 0;
  float* cos = nullptr;  // [tokens, dims / 2]
  float* sin = nullptr;
};
Status launch_angles(const DeviceAngles& params, void* stream);

}  // namespace ei::kernels::cuda
