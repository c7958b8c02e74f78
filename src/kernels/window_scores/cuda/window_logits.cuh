// The first step of window scores on a GPU: logits of one kv_head.
#pragma once

#include "kernels/window_scores/cuda/window_scores_cuda.h"

namespace ei::kernels::cuda {

struct WindowLogits {
  int32_t kv_head = 0;
  int32_t group = 1;
  int64_t length = 0;       // slots of the kv_head
  float* logits = nullptr;  // [group * window, stride]: -inf where a query does not see a slot
  int64_t stride = 0;       // even
};
// By the tensor cores; false, and nothing is launched, where these pages need the plain kernel.
bool launch_window_logits(const WindowScores& params, const WindowLogits& to, void* stream);

}  // namespace ei::kernels::cuda
