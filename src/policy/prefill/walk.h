// PrefillWalk: a prompt on its way through a prefill method, chunk by chunk and layer by layer: which segments are
// sampled and which choose blocks, what the method makes of the measurements, and the records of both. Pure data in,
// pure data out: the planner fills in what kernels have measured, a test what it made up, and both run this code.
//
// One chunk: begin_chunk; for each layer begin_layer, the measurements into run(), decide; then finish_chunk. A chunk
// that is not finished leaves no trace.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "plan/block_plan.h"
#include "policy/prefill/method.h"

namespace ei::policy {

class PrefillWalk {
 public:
  PrefillWalk(std::unique_ptr<PrefillMethod> method, const PrefillShape& shape);

  const PrefillMethod& method() const { return *method_; }
  const PrefillOptions& options() const { return method_->options(); }

  // A prompt that ends at position `end` will be read.
  void begin_prompt(int64_t end) { prompt_end_ = end; }
  int64_t prompt_end() const { return prompt_end_; }
  // Where a chunk of about `batch` tokens that begins at `first` ends: at a segment, or with the prompt.
  int64_t chunk_end(int64_t first, int64_t batch) const;
  // At most, of a prompt of `tokens` tokens that are still to be read.
  int64_t longest_chunk(int64_t tokens, int64_t batch) const;
  // Segments that a chunk of a prompt of positions [first, end) has, at most.
  int64_t most_segments(int64_t first, int64_t end, int64_t batch) const;

  // The first and the last segment of a chunk may be parts.
  void begin_chunk(int64_t first, int64_t tokens);
  int64_t first() const { return first_; }
  int64_t tokens() const { return tokens_; }
  int32_t first_segment() const { return first_segment_; }
  int32_t num_segments() const { return static_cast<int32_t>(sparse_.size()); }
  // [num_segments]: which segments choose, where their rows attend.
  std::span<const uint8_t> sparse() const { return sparse_; }

  // One layer of the chunk, of whose rows only the last `attending` will attend. One place a segment: is it to be
  // sampled, and does it need a ranking?
  std::span<const SegmentPlace> begin_layer(int layer, int64_t attending);
  std::span<const SegmentPlace> places(int layer) const { return turn(layer).places; }
  bool begun(int layer) const { return turn(layer).begun; }
  bool attends(int layer) const { return turn(layer).attends; }  // sparsely, in some segment
  // The layer's segments: measurements go in before decide(), what was decided is there behind it.
  LayerRecords& run(int layer) { return turns_[static_cast<size_t>(layer)].run; }
  // Rankings, means, budgets, counts and the plan's layout. The plan's blocks are there as well where the method names
  // them itself; otherwise they are for the caller to fill.
  void decide(int layer);
  BlockPlan& plan(int layer) { return turns_[static_cast<size_t>(layer)].plan; }

  // Query-key pairs that the chunk's plans left out, over all layers and kv_heads.
  double finish_chunk();
  // Forgets everything from `position` on.
  void truncate(int64_t position);

  // What the segments so far leave to later ones, for a text that is read on in another session (walk_memory.cpp).
  void save(ByteWriter& to) const;
  // Instead of what is held; nothing where another method or another shape was saved. kUsage: the bytes are damaged.
  Status restore(ByteReader& from);

  // Keep the chosen blocks in the records as well.
  void keep_blocks(bool keep) { keep_blocks_ = keep; }
  bool keeps_blocks() const { return keep_blocks_; }
  // What was measured and decided, and in force, in every segment that was read.
  const LayerRecords& records(int layer) const { return records_[static_cast<size_t>(layer)]; }

 private:
  // One layer of the chunk.
  struct Turn {
    bool begun = false;
    bool attends = false;
    std::vector<SegmentPlace> places;  // [num_segments]
    LayerRecords run;                  // [num_segments]
    BlockPlan plan;
  };

  const Turn& turn(int layer) const { return turns_[static_cast<size_t>(layer)]; }
  int64_t rows_of(int32_t segment) const;
  PrefillHistory history(int layer, size_t i) const;  // of segment i of the run
  void keep_chosen(Turn& turn) const;
  double pairs_left_out(const BlockPlan& plan) const;

  std::unique_ptr<PrefillMethod> method_;
  int32_t kv_heads_;
  std::vector<LayerRecords> records_;  // [layers]
  int64_t prompt_end_ = 0;
  bool keep_blocks_ = false;

  // The chunk.
  PoolRecord pool_;  // of its first segment, the same in every layer: made by the first one that decides
  int64_t first_ = 0;
  int64_t tokens_ = 0;
  int32_t first_segment_ = 0;
  std::vector<uint8_t> sparse_;  // [num_segments]
  std::vector<Turn> turns_;      // [layers]
};

}  // namespace ei::policy
