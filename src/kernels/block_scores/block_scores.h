// What a sparse prefill measures: contracts and shapes shared by the reference and its fast twins.
//
// Sparse prefill, per layer: keys of a block are represented by their componentwise extremes k+ and k-, the queries of
// a segment by their mid-range qm = (q+ + q-) / 2, all after rotation. Then for every block j before segment s
//   z[h, s, j] = scale * mean over the group of max(qm . k+, qm . k-)
//   P = softmax_j(z),   E[h, s] = max(0, -sum_j P ln(P + 1e-9))
//
// Row scores rank the same blocks by what single rows attend to, instead of by representatives (RowScore below).
#pragma once

#include <cstdint>

#include "plan/block_plan.h"
#include "plan/block_ranking.h"
#include "plan/kv_view.h"

namespace ei::kernels {

// Extremes of whole blocks: element (kv_head, block, d) lies at kv_head * head_stride + block * block_stride + d. With
// block_stride = kv_heads * head_dim an array grows by appending. Keys of 16 bits have extremes of 16 bits, exactly;
// those of q8_0 are rounded to f16.
constexpr DType extremes_type(DType key_type) { return key_type == DType::kQ8_0 ? DType::kF16 : key_type; }
struct BlockExtremes {
  void* max_keys = nullptr;
  void* min_keys = nullptr;
  DType type = DType::kF32;
  int64_t head_stride = 0;
  int64_t block_stride = 0;
};

// Writes the extremes of blocks [first_block, first_block + num_blocks), whose slots are all in the cache. Slot ==
// position: the cache is not compacted.
struct BlockExtremesParams {
  KvView kv;
  int32_t block = 0;
  int64_t first_block = 0;
  int64_t num_blocks = 0;
  BlockExtremes out;
};

// One representative per segment and query head. Row 0 of q begins a segment (or is the first new row of one that an
// earlier call has begun); every `segment` rows make one, and the last may be short.
struct QueryMidrangeParams {
  const float* q = nullptr;  // [tokens, num_heads, head_dim], already rotated
  int64_t q_stride = 0;      // floats between two tokens
  int64_t tokens = 0;
  int64_t first_rows = 0;  // rows that belong to the first segment when it was begun earlier; 0: a whole segment
  int32_t segment = 0;
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  float* out = nullptr;  // [segments, num_heads, head_dim]
};

// Row (kv_head, i) belongs to segment first_segment + i and holds its visible blocks, (first_segment + i) * segment /
// block of them; what lies behind them in the row is neither read nor written.
struct BlockRows {
  SegmentGrid grid;
  int32_t kv_heads = 0;
  int32_t first_segment = 0;
  int32_t num_segments = 0;
  int64_t stride = 0;  // floats between two rows; [kv_heads, num_segments, stride]

  constexpr int64_t visible(int32_t i) const { return int64_t{first_segment + i} * grid.blocks_per_segment(); }
  // Everything that a chunk has one of per kv_head and segment lies in this order.
  constexpr int64_t list(int32_t kv_head, int32_t i) const { return int64_t{kv_head} * num_segments + i; }
  constexpr int64_t offset(int32_t kv_head, int32_t i) const { return list(kv_head, i) * stride; }
};

// What a block is worth to a query, [scale * mean over the heads of a group].
enum class BlockScore : uint8_t {
  kMidrange,    // max(q . k+, q . k-)
  kUpperBound,  // sum over components of max(q k+, q k-): no key of the block has a larger product (Quest)
};

struct BlockScoreParams {
  BlockScore kind = BlockScore::kMidrange;
  BlockRows rows;
  const float* queries = nullptr;  // [num_segments, num_heads, head_dim], from QueryMidrangeParams
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  BlockExtremes keys;
  float scale = 1;          // 1, or 1 / sqrt(head_dim)
  float* scores = nullptr;  // rows
};

// Softmax, layer fusion and entropy of rows of scores.
struct BlockEntropyParams {
  BlockRows rows;
  const float* scores = nullptr;    // rows
  const float* previous = nullptr;  // rows; null: no fusion. The fused probabilities of the layer before
  float previous_share = 0.25f;     // P <- share * previous + (1 - share) * P; the entropy is that of the result
  float* probabilities = nullptr;   // rows; may be null. May be `previous` or `scores` itself
  float* entropy = nullptr;         // [kv_heads, num_segments]; a segment that sees no block has 0
  // [kv_heads, num_segments]: how many blocks, the most probable first, hold `cover` of the probability; null: not
  // wanted.
  float* covering = nullptr;
  float cover = 0;
};

// How the rows of a segment rate the blocks before it. Z[t] is the log-sum-exp of everything that row t attends to.
enum class RowScore : uint8_t {
  // One query per token, the mean of the group's: peak[t, j] = scale * max over keys k of block j of qbar[t] . k, and
  // Z[t] over the peaks of all blocks and the keys of the own segment up to t. Score: max over rows of peak - Z.
  kGroupPeak,
  // The share of true attention that falls on the block, of every row and head: the largest, or the sum. Slow: costs
  // more than the attention it saves; shows what a perfect choice would give.
  kMassMax,
  kMassSum,
};

struct RowScoreParams {
  RowScore kind = RowScore::kGroupPeak;
  BlockRows rows;
  const float* q = nullptr;  // [tokens, num_heads, head_dim], already rotated
  int64_t q_stride = 0;      // floats between two tokens
  int64_t tokens = 0;
  int32_t first_position = 0;  // of row 0, inside segment rows.first_segment
  int32_t num_heads = 0;
  float scale = 0;
  const uint8_t* wanted = nullptr;  // [num_segments]; rows of other segments are left as they are. Null: all
  KvView kv;                        // slot == position, with the keys of the rows themselves
  float* scores = nullptr;          // rows
};

// What a backend keeps of a layer's keys to rate blocks by (Backend::key_index_bytes says how much of it there is, and
// pack_keys fills it): as it lies there is the backend's own.
struct KeyIndexShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  DType key_type = DType::kF32;
  SegmentGrid grid;
};
struct KeyIndexBytes {
  int64_t kept = 0;     // of one layer, while the prompt is read
  int64_t passing = 0;  // of the layer in work; made anew for every chunk
  int64_t working = 0;  // that rating takes from the stream's own memory
};
struct KeyIndex {
  KeyIndexShape shape;
  void* kept = nullptr;     // of a text of kept_tokens
  void* passing = nullptr;  // of a text of passing_tokens
  int64_t kept_tokens = 0;
  int64_t passing_tokens = 0;
};

// Blocks of a super-block, whose keys are bounded together: the most that divide a segment and stay inside 64 keys.
// Wider bounds find other rows, narrower ones cost more (docs/notes/selection.md).
constexpr int32_t blocks_per_super(const SegmentGrid& grid) {
  constexpr int32_t kSuperKeys = 64;
  for (int32_t count = kSuperKeys / grid.block; count > 1; --count)
    if (grid.blocks_per_segment() % count == 0) return count;
  return 1;
}

// The CPU's form of it: keys rounded to 8 bits for peak scores, panels of eight keys with one scale, their elements in
// an order of the kernels' own. Panel p holds keys 8p to 8p + 7. Bounds are the same for the extremes of super-blocks:
// panel p holds super-blocks 8p to 8p + 7, each with 2 * head_dim elements, its largest and its smallest; the first
// super-block leaves out block 0.
struct KeyPanels {
  int8_t* keys = nullptr;         // [kv_heads, capacity, 8 * head_dim]
  float* key_scales = nullptr;    // [kv_heads, capacity]
  int64_t capacity = 0;           // panels of keys per kv_head
  int8_t* bounds = nullptr;       // [kv_heads, bound_capacity, 8 * 2 * head_dim]
  float* bound_scales = nullptr;  // [kv_heads, bound_capacity, 8]: of each super-block, whatever stands behind it
  int64_t bound_capacity = 0;
  int32_t super_blocks = 0;  // blocks in a super-block
};

// Packs the panels that keys [first, length) touch (first is a multiple of 8; the last panel may be a part), and the
// bound panels touched by the super-blocks [first_super, supers), all of whose keys are in the cache.
struct PackKeysParams {
  KvView kv;
  KeyIndex index = {};  // of a stream's call; what follows from it is in `out`
  int64_t first = 0;
  int64_t length = 0;
  int32_t block = 0;  // keys
  int64_t first_super = 0;
  int64_t supers = 0;
  KeyPanels out;
};

// Peak scores (kGroupPeak) of one segment, each kv_head ranked in its own way. Where only some rows rank, those do
// whose queries are furthest from the mean over the segment's rows (row_distances: squared, of each query of a token):
// what most rows look for any of them finds, what one row alone looks for only that one. The upper bound of a
// super-block for a row is (q+ . kmax + q- . kmin) * scale, less the log-sum-exp of the own segment's keys and the
// sink's peak (as in Quest, but relative to what the row finds anyway); super_bounds are the largest of the rows that
// rank.
// Blocks that are no candidates get a score below all others. Keys and queries are rounded to 8 bits.
struct PeakScoreParams {
  BlockRows rows;
  int32_t segment = 0;  // index into rows
  const float* q = nullptr;
  int64_t q_stride = 0;
  int64_t tokens = 0;
  int32_t first_position = 0;
  int32_t num_heads = 0;
  float scale = 0;
  KvView kv;                              // slot == position, with the keys of the rows themselves
  KeyIndex index = {};                    // of the same keys
  KeyPanels keys;                         // the same for the CPU's kernels, which make it of the index
  const BlockRanking* ranking = nullptr;  // one a kv_head, list_stride apart; read when the operation runs
  bool sampled_only = false;              // all rankings are `latest`, and only the samples are wanted
  int64_t most_queries = 1;               // that ranking may give a kv_head
  bool weighs_heads = true;               // may it be GroupQuery::kLeastLocal?
  float* scores = nullptr;                // rows; those of `segment` are written
  AttentionSample* samples = nullptr;     // like these, written where ranking asks for it; null: nowhere
  int64_t list_stride = 1;

  const BlockRanking& ranking_of(int64_t kv_head) const { return ranking[kv_head * list_stride]; }
  AttentionSample& sample_of(int64_t kv_head) const { return samples[kv_head * list_stride]; }
  // [kv_heads, rows of the segment, most_queries], written densely where rows are chosen; null: not wanted.
  float* row_distances = nullptr;
  float* super_bounds = nullptr;  // [kv_heads, whole super-blocks], written where blocks are; null: not wanted
};

// Fills plan->blocks with the highest-ranked blocks of every row. plan->offsets says how many each list takes; it is
// read when the operation runs, so that a host() job may write it before.
struct SelectBlocksParams {
  BlockRows rows;
  const float* values = nullptr;  // rows
  BlockPlan* plan = nullptr;
  // [kv_heads, num_segments], of shared() memory: what plan->offsets says, -1 where a segment reads everything. Null: a
  // backend reads the plan alone.
  const int32_t* counts = nullptr;
  // Does the host read plan->blocks? Otherwise they may stay where attention() reads them.
  bool wanted = true;
};

}  // namespace ei::kernels
