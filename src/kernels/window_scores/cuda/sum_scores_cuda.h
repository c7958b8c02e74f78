// Running sums on a GPU: scores of them (the contract is attention_sums.h's), and what stays of them. No CUDA header is
// needed to include this.
#pragma once

#include "base/result.h"
#include "kernels/window_scores/attention_sums.h"

namespace ei::kernels::cuda {

Status launch_sum_scores(const SumScoreParams& params, void* stream);

// sums[row, i] = sums[row, keep[i]] for i < count.
struct KeepSums {
  double* sums = nullptr;         // [rows, stride]
  double* room = nullptr;         // as much
  const int32_t* keep = nullptr;  // [count], on the device
  int64_t count = 0;
  int64_t rows = 0;
  int64_t stride = 0;
};
Status launch_keep_sums(const KeepSums& params, void* stream);

}  // namespace ei::kernels::cuda
