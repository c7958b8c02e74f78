// Measures of slots for KV methods that look at keys and values themselves.
#include <algorithm>

#include "backend/cuda/cuda_stream.h"
#include "kernels/window_scores/cuda/sum_scores_cuda.h"

namespace ei {

using kernels::cuda::SlotMeasures;

Result<SlotMeasures> CudaStream::slot_measures(const KvView& kv) {
  SlotMeasures measures{.pages = pages_of(kv), .kv_heads = static_cast<int32_t>(kv.heads.size())};
  for (const KvHeadView& head : kv.heads) measures.longest = std::max(measures.longest, head.length);
  EI_ASSIGN_OR_RETURN(measures.heads, readable_heads(kv));
  if (together()) graph_.refuse();
  return measures;
}

void CudaStream::measure_keys(const kernels::KeyMeasureParams& params) {
  if (open()) note(record_measure(params));
}

Status CudaStream::record_measure(const kernels::KeyMeasureParams& params) {
  EI_ASSIGN_OR_RETURN(SlotMeasures measures, slot_measures(params.kv));
  const auto bytes = static_cast<size_t>(kernels::cuda::key_measure_floats(measures)) * sizeof(float);
  EI_ASSIGN_OR_RETURN(void* room, window_room_.device(bytes));
  measures.room = static_cast<float*>(room);
  submit([=, this] { return kernels::cuda::launch_key_measure(measures, params, stream_); });
  return {};
}

void CudaStream::expect_scores(const kernels::ExpectedScoreParams& params) {
  if (open()) note(record_expected(params));
}

Status CudaStream::record_expected(const kernels::ExpectedScoreParams& params) {
  EI_ASSIGN_OR_RETURN(SlotMeasures measures, slot_measures(params.kv));
  const auto bytes = static_cast<size_t>(kernels::cuda::expected_floats(measures, params)) * sizeof(float);
  EI_ASSIGN_OR_RETURN(void* room, window_room_.device(bytes));
  measures.room = static_cast<float*>(room);
  submit([=, this] { return kernels::cuda::launch_expected(measures, params, stream_); });
  return {};
}

void CudaStream::sum_scores(const kernels::SumScoreParams& params) {
  if (!open()) return;
  if (together()) graph_.refuse();
  submit([=, this] { return kernels::cuda::launch_sum_scores(params, stream_); });
}

}  // namespace ei
