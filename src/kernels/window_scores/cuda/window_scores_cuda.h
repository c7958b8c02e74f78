// Window scores and running sums of attention on a GPU: the contracts are window_scores.h's and attention_sums.h's.
#pragma once

#include <span>

#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/pages/cuda/device_pages.h"

namespace ei::kernels::cuda {

struct WindowScores {
  const float* q = nullptr;  // [window, num_heads, head_dim]
  int64_t q_stride = 0;
  const int32_t* positions = nullptr;  // [window], on the device
  int64_t window = 0;
  int32_t num_heads = 0;
  float scale = 0;
  DevicePages pages;
  const DeviceKvHead* heads = nullptr;  // [kv_heads], on the device
  std::span<const int64_t> lengths{};   // [kv_heads], on the host
  float* scores = nullptr;              // [num_heads, score_stride], where the device can write
  int64_t score_stride = 0;
  float* entropy = nullptr;  // [num_heads], where the device can write; null: not wanted
  // Instead of scores, with the same stride; null: not wanted.
  double* sums = nullptr;
  const double* before = nullptr;
  std::span<const int64_t> counted{};  // [kv_heads], on the host
  float* room = nullptr;               // window_score_floats()
};
// Floats of scratch memory: the logits of one kv_head.
int64_t window_score_floats(const WindowScores& params);
Status launch_window_scores(const WindowScores& params, void* stream);

}  // namespace ei::kernels::cuda
