// Planner: carries out, layer by layer while a prompt is read, what a prefill method asks for: records what is to be
// measured (midrange_step.h, rating_steps.h), hands it to the method (policy/prefill/walk.h), and has the blocks rated
// and chosen that attention reads.
//
// Each chunk covers whole segments (the first and the last of a prompt may be parts). Nothing waits: everything is
// recorded on the stream, what the method decides on the host included, and the plan is filled when the stream runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "plan/block_plan.h"
#include "policy/prefill/walk.h"
#include "sparse/block_index.h"
#include "sparse/given.h"
#include "sparse/layer_turn.h"
#include "sparse/midrange_step.h"
#include "sparse/rating_steps.h"

namespace ei::sparse {

class Planner {
 public:
  // An error, in one line, where the backend cannot carry out such a method.
  static Status served(const Backend& backend, const policy::PrefillOptions& options, const PlannerShape& shape);
  // options.rule is not kDense.
  Planner(const Backend& backend, const policy::PrefillOptions& options, PlannerShape shape);

  const policy::PrefillOptions& options() const { return walk_.options(); }
  bool plans(int layer) const { return planned_[static_cast<size_t>(layer)] != 0; }

  // A prompt that ends at position `end` will be read.
  Status begin_prompt(int64_t end);
  int64_t prompt_end() const { return walk_.prompt_end(); }  // of the last one
  // Where a chunk of about `batch` tokens that begins at `first` ends: at a segment, or with the prompt.
  int64_t chunk_end(int64_t first, int64_t batch) const { return walk_.chunk_end(first, batch); }
  // At most, of a prompt of `tokens` tokens that are still to be read.
  int64_t longest_chunk(int64_t tokens, int64_t batch) const { return walk_.longest_chunk(tokens, batch); }

  // How much spare memory begin_chunk() should get where `have` bytes are there anyway.
  int64_t spare_for(int64_t have) { return index_.spare_for(have); }
  // One chunk: begin, record() every planned layer, synchronize the stream, then finish or undo.
  // `spare`: memory of the stream that nothing needs while record() runs.
  Status begin_chunk(Stream& stream, int64_t first, int64_t tokens, std::span<std::byte> spare = {});
  // q: the chunk's rotated queries [tokens, heads * head_dim]; kv already holds its keys. Only the last `attending`
  // rows will attend (none: what is carried along goes on all the same). Null: these rows read everything.
  const BlockPlan* record(Stream& stream, int layer, Matrix q, const KvView& kv, int64_t attending);
  // Query-key pairs that the chunk's plans left out, over all layers and kv_heads.
  double finish_chunk() { return walk_.finish_chunk(); }
  void undo_chunk() { index_.truncate(walk_.first()); }
  // The prompt has been read: memory that only prompts need goes back.
  void end_prompt() { index_.end_prompt(); }
  // The cache no longer holds every key, so no prompt can be planned until it does again.
  void keys_dropped() { index_.drop(); }
  int64_t held_bytes() const { return index_.held_bytes(); }  // beside the KV cache

  // Forgets everything from `position` on.
  void truncate(int64_t position);

  // What further prompts are decided by beside the keys, as bytes, for a saved cache.
  std::string memory() const;
  // Goes on with it, as far as it belongs to the first `position` tokens; with nothing where another method was saved.
  // kUsage: the bytes are damaged.
  Status recall(std::string_view memory, int64_t position);

  // Before anything is read; outlives the planner.
  void give(const Given* given) { given_ = given; }

  // Keep the chosen blocks in the records as well.
  void keep_blocks(bool keep) { walk_.keep_blocks(keep); }
  // What was measured and decided, and in force, in every segment that was read.
  const policy::LayerRecords& records(int layer) const { return walk_.records(layer); }

  // Memory beside the KV cache for a prompt of positions [first, end) in chunks of about `batch` tokens, where so much
  // is spare.
  int64_t bytes_for(int64_t first, int64_t end, int64_t batch, int64_t spare = 0) const;

 private:
  // On the host, in the stream's turn: what was measured goes to the method, what it decided to the kernels.
  void decide(int layer);
  // Must that wait for what the stream measures?
  bool waits() const;
  void take_given(int layer);
  bool follows(int layer) const;  // a planned layer that this chunk has recorded
  const float* ranked_values() const;

  PlannerShape shape_;
  std::vector<uint8_t> planned_;  // [layers]
  bool rates_peaks_ = false;
  policy::PrefillWalk walk_;
  BlockIndex index_;
  const Given* given_ = nullptr;
  kernels::BlockRows rows_;  // the chunk's segments and the blocks before them

  // In the order in which they run.
  MidrangeStep midrange_;
  SampleStep sample_;
  RatingStep rating_;
  SelectStep select_;
};

}  // namespace ei::sparse
