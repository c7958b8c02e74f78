// What a sparse prefill and a KV compression add to the graph of a chunk.
#include "backend/cpu_stream.h"
#include "kernels/block_scores/cpu/block_scores.h"
#include "kernels/block_scores/cpu/key_panels.h"
#include "kernels/window_scores/cpu/window_scores.h"

namespace ei {

void CpuStream::add_queue(QueueJob job, double* seconds) {
  WorkQueue& queue = new_queue();
  add([job = std::move(job), &queue](Worker) { job(queue); }, seconds);
}

void CpuStream::block_extremes(const kernels::BlockExtremesParams& params) {
  add([params](Worker worker) { kernels::block_extremes(params, worker); }, &times_.profile_s);
}

void CpuStream::query_midrange(const kernels::QueryMidrangeParams& params) {
  add([params](Worker worker) { kernels::query_midrange(params, worker); }, &times_.profile_s);
}

void CpuStream::block_scores(const kernels::BlockScoreParams& params) {
  add_queue([params](WorkQueue& queue) { kernels::block_scores(params, queue); }, &times_.profile_s);
}

void CpuStream::block_entropy(const kernels::BlockEntropyParams& params) {
  add_queue([params](WorkQueue& queue) { kernels::block_entropy(params, queue); }, &times_.profile_s);
}

void CpuStream::row_scores(const kernels::RowScoreParams& params) {
  add_queue([params](WorkQueue& queue) { kernels::row_scores_plain(params, queue); }, &times_.profile_s);
}

void CpuStream::pack_keys(const kernels::PackKeysParams& wanted) {
  const kernels::PeakVariant& peaks = kernels::choose_peak(isa_);
  kernels::PackKeysParams params = wanted;
  params.out = kernels::key_panels(params.index);
  add([&peaks, params](Worker worker) { peaks.pack_keys(params, worker); }, &times_.profile_s);
}

void CpuStream::peak_scores(const kernels::PeakScoreParams& wanted, std::span<const uint8_t> segments) {
  const kernels::PeakVariant& peaks = kernels::choose_peak(isa_);
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i] == 0) continue;
    kernels::PeakScoreParams params = wanted;
    params.keys = kernels::key_panels(params.index);
    params.segment = static_cast<int32_t>(i);
    params.list_stride = params.rows.num_segments;
    params.ranking += i;
    if (params.samples != nullptr) params.samples += i;
    void* memory = grow(profile_scratch_, peaks.scratch_bytes(params, device_.threads()));
    if (memory == nullptr) return;
    for (const auto step : peaks.steps) {
      WorkQueue& queue = new_queue();
      add([step, params, memory, &queue](Worker worker) { step(params, memory, queue, worker); }, &times_.profile_s);
    }
    add([&peaks, params, memory](Worker worker) { peaks.merge(params, memory, worker); }, &times_.profile_s);
  }
}

void CpuStream::select_blocks(const kernels::SelectBlocksParams& params) {
  add_queue([params](WorkQueue& queue) { kernels::select_blocks(params, queue); }, &times_.plan_s);
}

void CpuStream::window_scores(const kernels::WindowScoreParams& params) {
  const kernels::WindowVariant& variant = kernels::choose_window(isa_, params.kv);
  void* memory = grow(window_room_, variant.scratch_bytes(params, device_.threads()));
  if (memory == nullptr) return;
  WorkQueue& queue = new_queue();
  add([&variant, params, memory, &queue](Worker worker) { variant.score(params, memory, queue, worker); },
      &times_.profile_s);
  add([&variant, params, memory](Worker worker) { variant.merge(params, memory, worker); }, &times_.profile_s);
}

void CpuStream::attention_sums(const kernels::AttentionSumParams& params) {
  const kernels::WindowVariant& variant = kernels::choose_window(isa_, params.queries.kv);
  void* memory = grow(window_room_, variant.sum_bytes(params, device_.threads()));
  if (memory == nullptr) return;
  WorkQueue& queue = new_queue();
  add([&variant, params, memory, &queue](Worker worker) { variant.add(params, memory, queue, worker); },
      &times_.profile_s);
  add([&variant, params, memory](Worker worker) { variant.merge_sums(params, memory, worker); }, &times_.profile_s);
}

void CpuStream::host_each(int64_t count, std::function<void(int64_t)> job) {
  add_queue(
      [count, job = std::move(job)](WorkQueue& queue) {
        for (int64_t i; (i = queue.take()) < count;) job(i);
      },
      &times_.plan_s);
}

void CpuStream::host(std::function<void()> job) {
  add(
      [job = std::move(job), this](Worker worker) {
        if (worker.index == 0 && (cancel_ == nullptr || !cancel_->cancelled())) job();
      },
      &times_.plan_s);
}

Result<float*> CpuStream::shared(const ScratchSlot& slot, int64_t count) {
  std::vector<float>& memory = shared_[slot.id()];
  if (memory.size() < static_cast<size_t>(count)) memory.resize(static_cast<size_t>(count));
  return memory.data();
}

}  // namespace ei
