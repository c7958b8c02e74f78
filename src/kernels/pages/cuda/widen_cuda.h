// A layer of a cache in fp8 as a copy in f16, in the layout that kernels of 16 bits read. One copy of a layer for each
// chunk of a prompt costs less than its measuring; a generated token reads the codes themselves (decode.cuh).
#pragma once

#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/pages/cuda/device_pages.h"

namespace ei::kernels::cuda {

struct WidenPages {
  const DeviceKvHead* heads = nullptr;  // [kv_heads], whose pages hold codes
  int32_t kv_heads = 0;
  int64_t longest = 0;     // slots of the longest head
  DevicePages to;          // of f16
  void* memory = nullptr;  // page p of kv_head h lies at h * head_bytes + p * page_bytes
  int64_t head_bytes = 0;
  int64_t page_bytes = 0;
};
Status launch_widen(const WidenPages& params, void* stream);

}  // namespace ei::kernels::cuda
