// Rating blocks by the peaks of rows on a GPU (PeakScoreParams in block_scores.h), for all segments of a chunk at once.
// No CUDA header is needed to include this.
//
// A task is one kv_head in one segment. Its rows, queries in the type of the cache, are multiplied with keys three
// times (the third time rounded to 8 bits like the keys, where tensor cores do it and segments are whole units): with
// those of their own segment (what a row finds there, and in the first block), with the extremes of super-blocks (which
// blocks to rate), and with the blocks themselves. Peaks stay in memory, relative to what the row has found, until its
// normaliser is known. How many rows and blocks a task has is read on the device: the host enqueues before anything is
// decided.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/block_scores/block_scores.h"
#include "kernels/block_scores/cuda/rounded_keys.h"
#include "kernels/pages/cuda/device_pages.h"

namespace ei::kernels::cuda {

inline constexpr int kMostSegments = 32;  // of one launch
// Memory for the peaks of segments that are rated together; a single one may need more.
inline constexpr size_t kRatedTogether = size_t{2} << 30;
size_t rated_together();
// For tests: so many bytes in its place; 0: that again.
void rate_together_in(size_t bytes);

// Everything a pointer here leads to is device memory, or host memory that the device reads.
struct RatingParams {
  BlockRows rows;
  int32_t segments[kMostSegments] = {};  // of `rows`, that are rated now; others are left as they are
  int32_t num_active = 0;
  const float* q = nullptr;
  int64_t q_stride = 0;
  int64_t tokens = 0;
  int32_t first_position = 0;
  int32_t num_heads = 0;
  float scale = 0;
  DevicePages pages;
  const DeviceKvHead* heads = nullptr;
  const void* index = nullptr;  // launch_pack_supers() filled it
  int64_t index_supers = 0;     // whole panels of super-blocks per kv_head, in super-blocks
  RoundedKeys rounded = {};     // that peaks are rated by; without, by those of the cache
  const BlockRanking* ranking = nullptr;
  int64_t most_queries = 1;
  bool weighs_heads = true;
  bool sampling = false;  // samples alone, otherwise ratings alone
  float* scores = nullptr;
  AttentionSample* samples = nullptr;
  void* room = nullptr;  // rating_bytes()
};

// Super-blocks that an index has room for, of each kv_head: whole panels.
inline int64_t index_supers(const KeyIndex& index) {
  const SegmentGrid& grid = index.shape.grid;
  const int64_t supers = index.kept_tokens / (int64_t{blocks_per_super(grid)} * grid.block);
  return (supers + 7) / 8 * 8;
}
// Bytes of so many of one kv_head: each is like two keys, of the cache's type where pages are blocked and f32
// otherwise.
int64_t super_index_bytes(const DevicePages& pages, int64_t supers);

// Are peaks rated by rounded keys? Whole units of them are before every segment then. Tensor cores do all products
// then; otherwise wgmma where there is any, or plain loops.
bool rates_rounded(const DevicePages& pages, const SegmentGrid& grid);

// Scratch memory for `num_active` segments.
size_t rating_bytes(const DeviceTraits& traits, const RatingParams& params);
// The most that ratings like `params` need in a prompt of so many tokens, of up to so many segments together.
size_t rating_bytes_at(const DeviceTraits& traits, const RatingParams& params, int64_t tokens, int64_t segments);
// The same, of those that need the most.
int64_t rating_estimate(const DeviceTraits& traits, const DevicePages& pages, const KeyIndexShape& shape,
                        int64_t tokens, int64_t segments);
Status launch_rating(const DeviceTraits& traits, const RatingParams& params, void* stream);

struct PackSupers {
  DevicePages pages;
  const DeviceKvHead* heads = nullptr;
  int32_t kv_heads = 0;
  int32_t block = 0;
  int32_t super_keys = 0;
  int64_t first = 0;  // super-blocks [first, last)
  int64_t last = 0;
  void* index = nullptr;
  int64_t index_supers = 0;
};
Status launch_pack_supers(const PackSupers& params, void* stream);

// The highest-ranked blocks of every list, ascending; ties as base/top_indices.h has them.
struct SelectLists {
  BlockRows rows;
  const float* values = nullptr;
  const int32_t* counts = nullptr;  // [kv_heads, num_segments]; -1: the segment reads everything
  int64_t* offsets = nullptr;       // [kv_heads * num_segments + 1], written
  int32_t* blocks = nullptr;        // written
  uint8_t* dense = nullptr;         // [num_segments], written
};
Status launch_select(const SelectLists& params, void* stream);

}  // namespace ei::kernels::cuda
