// Planner: decides, layer by layer while a prompt is read, which blocks of earlier keys every segment reads.
//
// Each chunk covers whole segments (the first and the last of a prompt may be parts). Per layer it records: extremes of
// the new blocks, representatives of the queries, block scores, their entropy; then, in the stream's turn, the budgets
// on the host; then the ranking and the choice. Nothing waits: the plan is filled when the stream runs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "plan/block_plan.h"
#include "policy/block_select.h"
#include "policy/head_habits.h"
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

// What was decided in one layer, one entry per segment that was read: for reports. Lists are [segments, kv_heads].
struct LayerTrace {
  std::vector<int32_t> segments;
  std::vector<uint8_t> dense;  // [segments]
  std::vector<float> entropy;
  std::vector<float> tokens;  // budgets
  std::vector<uint8_t> rigid;
  std::vector<policy::HeadHabit> habits;     // behind the segment
  std::vector<policy::HeadKind> kinds;       // in the segment
  std::vector<std::vector<int32_t>> blocks;  // chosen; empty where dense, or when not kept
};

class Planner {
 public:
  Planner(const Backend& backend, const policy::PrefillOptions& options, PlannerShape shape);

  const policy::PrefillOptions& options() const { return options_; }
  bool plans(int layer) const { return index_shape_.planned[static_cast<size_t>(layer)] != 0; }

  // A prompt that ends at position `end` will be read.
  Status begin_prompt(int64_t end);
  // Where a chunk of about `batch` tokens that begins at `first` ends: at a segment, or with the prompt.
  int64_t chunk_end(int64_t first, int64_t batch) const;

  // One chunk: begin, record() every planned layer, synchronize the stream, then finish or undo.
  Status begin_chunk(Stream& stream, int64_t first, int64_t tokens);
  // q: the chunk's rotated queries [tokens, heads * head_dim]; kv already holds its keys. Only the last `attending`
  // rows will attend (none: the budgets go on all the same). Null: these rows read everything.
  const BlockPlan* record(Stream& stream, int layer, Matrix q, const KvView& kv, int64_t attending);
  // Query-key pairs that the chunk's plans left out, over all layers and kv_heads.
  double finish_chunk();
  void undo_chunk();
  // The prompt has been read: memory that only prompts need goes back.
  void end_prompt() { index_.drop_panels(); }
  // The cache no longer holds every key, so no prompt can be planned until it does again.
  void keys_dropped() { index_.drop(); }
  int64_t held_bytes() const { return index_.held_bytes(); }  // beside the KV cache

  // Forgets everything from `position` on.
  void truncate(int64_t position);

  // Keep the chosen blocks in the trace as well.
  void keep_blocks(bool keep) { keep_blocks_ = keep; }
  const LayerTrace& trace(int layer) const { return tracks_[static_cast<size_t>(layer)].trace; }

  // Memory beside the KV cache for a prompt that ends at `end`.
  int64_t bytes_for(int64_t end) const;

 private:
  struct Track {
    int32_t layer = 0;
    std::optional<policy::EntropyBudget> budget;
    std::optional<policy::EntropyBudget> budget_before;  // the chunk
    LayerTrace trace;
    BlockPlan plan;
    std::vector<policy::HeadHabit> habits;  // [kv_heads]
    std::vector<policy::HeadHabit> habits_before;
    // This chunk: what was recorded, and once the stream has run, what was decided, [kv_heads, num_segments].
    bool recorded = false;
    bool attends = false;
    std::vector<float> entropy;
    std::vector<float> tokens;
    std::vector<uint8_t> rigid;
    std::vector<HeadCare> care;  // [num_segments, kv_heads], like the next two
    std::vector<policy::HeadKind> kinds;
    std::vector<policy::HeadHabit> habits_behind;
  };

  void profile(Stream& stream, int layer, Matrix q);
  // What the blocks are ranked by; rows attend from segment `attending` of the chunk on.
  const float* rank(Stream& stream, int layer, Matrix q, const KvView& kv, int64_t attending);
  void rate_peaks(Stream& stream, int layer, int32_t i, Matrix q, const KvView& kv, bool wanted, bool probed);
  int64_t rows_of(int32_t i) const;
  void decide(Track& track, const float* entropy) const;
  double pairs_left_out(const BlockPlan& plan) const;
  void append_trace(Track& track) const;

  policy::PrefillOptions options_;
  PlannerShape shape_;
  policy::AskingPrice price_;
  BlockIndexShape index_shape_;
  BlockIndex index_;
  std::vector<Track> tracks_;  // [layers]
  int64_t prompt_end_ = 0;
  bool keep_blocks_ = false;

  // The chunk.
  int64_t first_ = 0;
  int64_t tokens_ = 0;
  policy::ChunkProfile chunk_;
  kernels::BlockRows rows_;
  std::vector<uint8_t> sparse_;  // [num_segments]
  Matrix representatives_;       // [num_segments, heads * head_dim]
  Matrix scores_;                // [kv_heads * num_segments, blocks], like the next two
  Matrix ranks_;
  Matrix probabilities_;
  float* entropy_ = nullptr;  // [layers, kv_heads, num_segments]
  float* probes_ = nullptr;   // [layers, kv_heads, 2]
};

}  // namespace ei::sparse
