// Scores of cached slots under a window of recorded queries (contract in ../window_scores.h), and running sums of
// attention (../attention_sums.h), in two steps with a
// barrier between them: every worker takes some rows of one query head over all slots; then rows are added up.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/workers.h"
#include "kernels/window_scores/attention_sums.h"
#include "kernels/window_scores/window_scores.h"

namespace ei::kernels {

// `scratch` is shared, at least scratch_bytes(), 64-byte aligned, contents undefined. Results do not depend on the
// number of workers.
struct WindowVariant {
  std::string_view name;
  bool (*usable)();
  bool (*accepts)(const KvView& kv);
  size_t (*scratch_bytes)(const WindowScoreParams& params, int workers);
  void (*score)(const WindowScoreParams& params, void* scratch, WorkQueue& queue, Worker worker);
  void (*merge)(const WindowScoreParams& params, void* scratch, Worker worker);
  // The same two steps for running sums.
  size_t (*sum_bytes)(const AttentionSumParams& params, int workers);
  void (*add)(const AttentionSumParams& params, void* scratch, WorkQueue& queue, Worker worker);
  void (*merge_sums)(const AttentionSumParams& params, const void* scratch, Worker worker);
};
// Fastest first; the last is always usable and accepts everything.
const std::vector<const WindowVariant*>& window_variants();
// The fastest that may be used. `isa` (EI_CPU_ISA, may be empty) leaves out what comes before the variant of that name.
const WindowVariant& choose_window(std::string_view isa, const KvView& kv);

#if defined(__aarch64__)
const WindowVariant& neonbf16_window();
const WindowVariant& neon_window();
#elif defined(__x86_64__)
const WindowVariant& avx2_window();
#endif

}  // namespace ei::kernels
