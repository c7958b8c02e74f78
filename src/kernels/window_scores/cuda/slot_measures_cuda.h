// Measures of slots on a GPU: the contract is slot_measures.h's. No CUDA header is needed to include this.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/pages/cuda/device_pages.h"
#include "kernels/window_scores/slot_measures.h"

namespace ei::kernels::cuda {

struct SlotMeasures {
  DevicePages pages;
  const DeviceKvHead* heads = nullptr;  // [kv_heads]
  int32_t kv_heads = 0;
  int64_t longest = 0;    // slots of the longest head
  float* room = nullptr;  // key_measure_floats() or expected_floats()
};

int64_t key_measure_floats(const SlotMeasures& measures);
Status launch_key_measure(const SlotMeasures& measures, const KeyMeasureParams& params, void* stream);
int64_t expected_floats(const SlotMeasures& measures, const ExpectedScoreParams& params);
Status launch_expected(const SlotMeasures& measures, const ExpectedScoreParams& params, void* stream);

}  // namespace ei::kernels::cuda
