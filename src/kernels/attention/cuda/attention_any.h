// Attention over caches that the fast kernels do not serve (f32, keys and values of two types, odd head_dims): one
// block of threads for one head of one row, everything in f32. Slow and obvious; the contract is attention.h's.
#pragma once

#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/pages/cuda/device_pages.h"

namespace ei::kernels::cuda {

inline constexpr int32_t kMostAnyDim = 512;

struct AnyAttention {
  DeviceRows q;    // f32, [tokens, num_heads * head_dim], already rotated
  DeviceRows out;  // f32 or bf16
  int32_t num_heads = 0;
  int32_t kv_heads = 0;
  int32_t first_position = 0;
  float scale = 0;
  int32_t window = 0;
  bool planned = false;
  DevicePlan plan;
  DevicePages pages;
  const DeviceKvHead* heads = nullptr;  // [kv_heads]
};
Status launch_attention_any(const AnyAttention& params, void* stream);

}  // namespace ei::kernels::cuda
