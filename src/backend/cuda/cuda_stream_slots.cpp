// What a KV compression measures of a cache, adds up and chooses by, on a GPU.
#include <algorithm>
#include <vector>

#include "backend/cuda/cuda_stream.h"
#include "kernels/window_scores/cuda/slot_choice_cuda.h"
#include "kernels/window_scores/cuda/window_scores_cuda.h"

namespace ei {

void CudaStream::window_scores(const kernels::WindowScoreParams& params) {
  if (!open()) return;
  note(score_window(params));
}

void CudaStream::attention_sums(const kernels::AttentionSumParams& params) {
  if (!open()) return;
  // Logits of so many rows of one kv_head's heads lie in memory: two floats of them for each double of kSumRoom.
  const auto kv_heads = static_cast<int64_t>(params.queries.kv.heads.size());
  const int64_t at_once = std::min<int64_t>(64, 2 * kernels::kSumRoom * kv_heads);
  kernels::AttentionSumParams some = params;
  int64_t row = 0;
  do {  // without any row: what was there is still carried on
    some.queries.q = params.queries.q + row * params.queries.q_stride;
    some.queries.positions = params.queries.positions + row;
    some.queries.window = std::min(at_once, params.queries.window - row);
    note(score_window(some.queries, &some));
    some.before = params.sums;
    some.counted.clear();
    for (const KvHeadView& head : params.queries.kv.heads) some.counted.push_back(head.length);
    row += at_once;
  } while (row < params.queries.window);
}

Status CudaStream::score_window(const kernels::WindowScoreParams& params, const kernels::AttentionSumParams* running) {
  std::vector<int64_t> lengths;
  for (const KvHeadView& head : params.kv.heads) lengths.push_back(head.length);
  EI_ASSIGN_OR_RETURN(const kernels::cuda::DeviceKvHead* heads, readable_heads(params.kv));
  kernels::cuda::WindowScores scores{.q = params.q,
                                     .q_stride = params.q_stride,
                                     .positions = params.positions,
                                     .window = params.window,
                                     .num_heads = params.num_heads,
                                     .scale = params.scale,
                                     .pages = pages_of(params.kv),
                                     .heads = heads,
                                     .lengths = lengths,
                                     .scores = params.scores,
                                     .score_stride = params.score_stride,
                                     .entropy = params.entropy};
  std::vector<int64_t> counted;
  if (running != nullptr) {
    counted = running->counted;
    scores.before = running->before;
    scores.sums = running->sums;
    scores.score_stride = running->stride;
  }
  const auto bytes = static_cast<size_t>(kernels::cuda::window_score_floats(scores)) * sizeof(float);
  EI_ASSIGN_OR_RETURN(void* room, window_room_.device(bytes));
  scores.room = static_cast<float*>(room);
  if (together()) graph_.refuse();
  submit([this, scores, lengths, counted]() mutable {
    scores.lengths = lengths;
    scores.counted = counted;
    return kernels::cuda::launch_window_scores(scores, stream_);
  });
  return {};
}

template <typename Params>
void CudaStream::submit_sets(const Params& params, Status (*launch)(const Params&, void*)) {
  if (!open()) return;
  if (together()) graph_.refuse();
  std::vector<int64_t> slots(params.slots.begin(), params.slots.end());
  submit([this, launch, call = Params(params), slots = std::move(slots)]() mutable {
    call.slots = slots;
    return launch(call, stream_);
  });
}

void CudaStream::rate_slots(const kernels::RateSlotsParams& params) {
  submit_sets(params, kernels::cuda::launch_rate_slots);
}

void CudaStream::choose_slots(const kernels::ChooseSlotsParams& params) {
  submit_sets(params, kernels::cuda::launch_choose_slots);
}

void CudaStream::spread_slots(const kernels::SpreadSlotsParams& params) {
  submit_sets(params, kernels::cuda::launch_spread_slots);
}

void CudaStream::leave_out_slots(const kernels::LeaveOutSlotsParams& params) {
  submit_sets(params, kernels::cuda::launch_leave_out_slots);
}

}  // namespace ei
