// Row-wise operations of a forward pass on a GPU: what rowwise.h does on the CPU. Launches only enqueue; `stream` is a
// cudaStream_t.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_rows.h"

namespace ei::kernels::cuda {

// out[t] = scale * table[ids[t]]; table and ids on the device.
Status launch_embed(DeviceRows table, const int32_t* ids, float scale, DeviceRows out, void* stream);
// y = x / rms(x) * gain. y may be x.
Status launch_rms_norm(DeviceRows x, const float* gain, float eps, DeviceRows y, void* stream);
// sum += x, then y = norm(sum). Without a gain no y.
Status launch_add_rms_norm(DeviceRows x, DeviceRows sum, const float* gain, float eps, DeviceRows y, void* stream);
// out = silu(gate) * up, or gelu(gate) * up with llama.cpp's two roundings to half precision (rowwise.h).
Status launch_activate(bool gelu, DeviceRows gate, DeviceRows up, DeviceRows out, void* stream);
// x = cap * tanh(x / cap)
Status launch_softcap(DeviceRows x, float cap, void* stream);
// to = from, between types too
Status launch_copy_rows(DeviceRows from, DeviceRows to, void* stream);
// Rows of bf16 that lie at the beginning of rows of f32 become these.
Status launch_widen_rows(float* data, int64_t rows, int64_t cols, int64_t stride, void* stream);

}  // namespace ei::kernels::cuda
