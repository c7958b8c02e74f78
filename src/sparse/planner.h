// Planner: carries out, layer by layer while a prompt is read, what a prefill method asks for: records what is to be
// measured, hands it to the method, and lays out the plan that attention reads.
//
// Each chunk covers whole segments (the first and the last of a prompt may be parts). Nothing waits: everything is
// recorded on the stream, what the method decides on the host included, and the plan is filled when the stream runs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "plan/block_plan.h"
#include "policy/prefill/method.h"
#include "sparse/block_index.h"

namespace ei::sparse {

struct PlannerShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  float attention_scale = 0;
  double products = 0;  // multiply-adds of a token with the weights of all layers
  DType key_type = DType::kF32;
  std::vector<uint8_t> global;  // [layers]: attends to the whole context; others have a window and stay as they are
};

class Planner {
 public:
  // An error, in one line, where the backend cannot carry out such a method.
  static Status served(const Backend& backend, const policy::PrefillOptions& options, const PlannerShape& shape);
  // options.rule is not kDense.
  Planner(const Backend& backend, const policy::PrefillOptions& options, PlannerShape shape);

  const policy::PrefillOptions& options() const { return method_->options(); }
  bool plans(int layer) const { return planned_[static_cast<size_t>(layer)] != 0; }

  // A prompt that ends at position `end` will be read.
  Status begin_prompt(int64_t end);
  // Where a chunk of about `batch` tokens that begins at `first` ends: at a segment, or with the prompt.
  int64_t chunk_end(int64_t first, int64_t batch) const;
  // At most, of a prompt of `tokens` tokens that are still to be read.
  int64_t longest_chunk(int64_t tokens, int64_t batch) const;

  // One chunk: begin, record() every planned layer, synchronize the stream, then finish or undo.
  Status begin_chunk(Stream& stream, int64_t first, int64_t tokens);
  // q: the chunk's rotated queries [tokens, heads * head_dim]; kv already holds its keys. Only the last `attending`
  // rows will attend (none: what is carried along goes on all the same). Null: these rows read everything.
  const BlockPlan* record(Stream& stream, int layer, Matrix q, const KvView& kv, int64_t attending);
  // Query-key pairs that the chunk's plans left out, over all layers and kv_heads.
  double finish_chunk();
  void undo_chunk() { index_.truncate(first_); }
  // The prompt has been read: memory that only prompts need goes back.
  void end_prompt() { index_.end_prompt(); }
  // The cache no longer holds every key, so no prompt can be planned until it does again.
  void keys_dropped() { index_.drop(); }
  int64_t held_bytes() const { return index_.held_bytes(); }  // beside the KV cache

  // Forgets everything from `position` on.
  void truncate(int64_t position);

  // Keep the chosen blocks in the records as well.
  void keep_blocks(bool keep) { keep_blocks_ = keep; }
  // What was measured and decided, and in force, in every segment that was read.
  const policy::LayerRecords& records(int layer) const { return records_[static_cast<size_t>(layer)]; }

  // Memory beside the KV cache for a prompt that ends at `end`.
  int64_t bytes_for(int64_t end) const;

 private:
  // One layer of the chunk.
  struct Track {
    bool recorded = false;
    bool attends = false;
    policy::LayerRecords run;  // [num_segments]
    BlockPlan plan;
  };
  // What kernels and host jobs hand each other about one layer.
  struct Exchange {
    BlockRanking* sampled;     // [num_segments, kv_heads]: only samples are wanted
    BlockRanking* rankings;    // [num_segments, kv_heads]
    AttentionSample* samples;  // [num_segments, kv_heads]
    int32_t* counts;           // [kv_heads, num_segments]: of blocks
  };

  policy::PrefillHistory history(int layer, size_t i) const;  // of segment i of the run
  int64_t rows_of(int32_t segment) const;

  // The steps of record(), in the order in which they run.
  void measure_midrange(Stream& stream, int layer, Matrix q);
  void rate_segments(Stream& stream, int layer, Matrix q, const KvView& kv, int64_t attending_from);
  void rank_segments(int layer, const std::vector<policy::SegmentPlace>& places);
  void score_rows(Stream& stream, Matrix q, const KvView& kv);
  void decide(int layer);
  void name_blocks(int layer);

  static int64_t exchanged_floats(int64_t lists);  // of one layer
  Exchange exchange(int layer) const;
  const float* ranked_values() const;
  double pairs_left_out(const BlockPlan& plan) const;

  PlannerShape shape_;
  std::vector<uint8_t> planned_;  // [layers]
  bool rates_peaks_ = false;
  std::unique_ptr<policy::PrefillMethod> method_;
  BlockIndex index_;
  std::vector<policy::LayerRecords> records_;  // [layers]
  int64_t prompt_end_ = 0;
  bool keep_blocks_ = false;

  // The chunk.
  int64_t first_ = 0;
  int64_t tokens_ = 0;
  std::vector<Track> tracks_;    // [layers]
  kernels::BlockRows rows_;      // its segments and the blocks before them
  std::vector<uint8_t> sparse_;  // [num_segments]
  Matrix representatives_;       // [num_segments, heads * head_dim]
  Matrix scores_;                // [kv_heads * num_segments, blocks], like the next two
  Matrix ranks_;
  Matrix probabilities_;
  float* entropy_ = nullptr;   // [layers, kv_heads, num_segments]
  float* exchange_ = nullptr;  // [layers] of what Exchange points to
};

}  // namespace ei::sparse
