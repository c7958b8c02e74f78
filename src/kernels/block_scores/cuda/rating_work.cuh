// The tasks of a rating (rating_cuda.h) and how its products are cut into items of some rows and a range of keys.
#pragma once

#include <cstdint>

#include "kernels/block_scores/cuda/rating_cuda.h"
#include "kernels/cuda/largest.cuh"

namespace ei::kernels::cuda {

inline constexpr int kRatingRows = 128;   // of an item
inline constexpr int kRoundedRows = 256;  // of an item of peaks in 8 bits
inline constexpr int kPanelKeys = 8;      // keys of a panel: a block of the cache's layout
inline constexpr int kSplitPanels = 256;  // panels of an item of peaks, a multiple of every tile
inline constexpr int kSampleRows = 32;    // of every head
inline constexpr float kNoRating = -3.0e38f;

enum class Products : uint8_t { kOwn, kBounds, kPeaks };

struct RatingTask {
  int32_t kv_head;
  int32_t list;         // row of BlockRows: kv_head * num_segments + segment
  int32_t first_token;  // of the segment's rows, counted in the chunk
  int32_t tokens;
  int32_t own_begin;  // first slot of the segment
  int32_t visible;    // blocks before it
  int32_t queries;    // of a token
  GroupQuery query;
  bool latest;
  int32_t all_rows;    // tokens * queries; of a sample its rows
  int32_t rows;        // of them, that rate: the only ones that are multiplied
  bool chosen;         // are these listed?
  int32_t supers;      // whole super-blocks before the segment
  int32_t candidates;  // super-blocks that are rated; -1: all blocks are
  int32_t blocks;      // that are rated
};

struct RatingArgs {
  RatingParams params;
  int32_t group;
  int32_t dim;
  int32_t parts;         // panels of a block
  int32_t super_blocks;  // blocks of a super-block
  int32_t num_tasks;     // kv_heads * num_active, kv_head by kv_head
  int32_t max_rows;      // of a task
  int32_t max_rated;     // of them that rate
  int64_t max_blocks;    // of a task, a multiple of 16
  int64_t max_supers;
  int32_t max_splits;
  float scale;        // times log2(e)
  bool fast;          // by tensor cores
  bool wgmma;         // Hopper's
  int32_t peak_rows;  // of an item of peaks
  // In the scratch memory.
  RatingTask* tasks;       // [num_tasks]
  int32_t* first_item[3];  // [num_tasks + 1] for each kind of product
  void* queries;           // [num_tasks, max_rows, dim]; not written where every head speaks for itself, if `fast`
  float* own;              // [num_tasks, max_rows], of rows that rate: log2 of what is found in the own segment
  float* sink;             // the best key of the first block, in powers of two
  float* found;            // log2 of both together
  float* row_distances;    // squared, of a query from the mean over the rows, where rows are chosen
  uint32_t* super_bounds;  // [num_tasks, max_supers], in the order of their bits (ordered())
  int32_t* row_list;       // [num_tasks, max_rows]
  int32_t* super_list;     // [num_tasks, max_supers]
  uint16_t* peaks;         // [num_tasks, max_rated, max_blocks], f16: log2 of shares of what the row has found
  float* parts_sum;        // [num_tasks, max_rated, max_splits]
  float* grown;            // [num_tasks, max_rated]: log2 of all that a row attends to over what it has found
  float* far_sum;          // [num_tasks, max_rated]
  float4* mass;            // [num_tasks, ceil(max_blocks / 256)]
};

struct RatingItem {
  int32_t task;
  int32_t row;    // first one
  int32_t split;  // of the keys
};

__device__ inline int32_t items_of(const RatingArgs& args, const RatingTask& task, Products kind) {
  if (kind == Products::kOwn) return (task.rows + kRatingRows - 1) / kRatingRows;
  if (kind == Products::kBounds) return task.candidates >= 0 ? (task.rows + kRatingRows - 1) / kRatingRows : 0;
  const int32_t splits = (task.blocks * args.parts + kSplitPanels - 1) / kSplitPanels;
  return (task.rows + args.peak_rows - 1) / args.peak_rows * splits;
}

// The tasks and where their items begin; a kernel of many items keeps them close by.
struct RatingTables {
  const RatingTask* tasks;
  const int32_t* first;  // [num_tasks + 1]
};

// Item `number` of a kind of products, which there is.
__device__ inline RatingItem find_item(const RatingArgs& args, const RatingTables& tables, Products kind,
                                       int32_t number) {
  const int32_t* first = tables.first;
  int32_t low = 0;
  int32_t high = args.num_tasks;  // first[low] <= number < first[high]
  while (high - low > 1) {
    const int32_t middle = (low + high) / 2;
    (first[middle] <= number ? low : high) = middle;
  }
  const int32_t in_task = number - first[low];
  const int32_t rows = kind == Products::kPeaks ? args.peak_rows : kRatingRows;
  const int32_t tiles = (tables.tasks[low].rows + rows - 1) / rows;
  return {low, in_task % tiles * rows, in_task / tiles};
}

// The row at place i of those that rate.
__device__ inline int32_t rating_row(const RatingArgs& args, const RatingTask& task, int32_t task_index, int32_t i) {
  return task.chosen ? args.row_list[int64_t{task_index} * args.max_rows + i] : i;
}
// The token of a row, counted in the chunk.
__device__ inline int32_t token_of(const RatingArgs& args, const RatingTask& task, int32_t row) {
  if (!args.params.sampling) return task.first_token + row / task.queries;
  return task.first_token + (2 * row + 1) * task.tokens / (2 * task.all_rows);
}
// The query of a row where every head speaks for itself.
__device__ inline const float* own_query(const RatingArgs& args, const RatingTask& task, int32_t row) {
  const int64_t head = int64_t{task.kv_head} * args.group + row % task.queries;
  return args.params.q + token_of(args, task, row) * args.params.q_stride + head * args.dim;
}

// The block at place i of those that are rated.
__device__ inline int32_t rated_block(const RatingArgs& args, const RatingTask& task, int32_t task_index, int32_t i) {
  if (task.candidates < 0) return i;
  const int32_t listed = task.candidates * args.super_blocks;
  if (i >= listed) return task.supers * args.super_blocks + i - listed;
  const int32_t super = args.super_list[task_index * args.max_supers + i / args.super_blocks];
  return super * args.super_blocks + i % args.super_blocks;
}

// Launches of the kernels in files of their own; cudaError_t.
int rating_64_sm90a(const RatingArgs& args, Products kind, DType type, int sms, void* stream);
int rating_96_sm90a(const RatingArgs& args, Products kind, DType type, int sms, void* stream);
int rating_128_sm90a(const RatingArgs& args, Products kind, DType type, int sms, void* stream);
int rating_256_sm90a(const RatingArgs& args, Products kind, DType type, int sms, void* stream);
int rounded_peaks(const RatingArgs& args, int sms, void* stream);               // of params.rounded
int rating_sm80(const RatingArgs& args, Products kind, int sms, void* stream);  // peaks of params.rounded
int rating_plain(const RatingArgs& args, Products kind, int sms, void* stream);
int rating_rows(const RatingArgs& args, bool weigh, void* stream);  // setup and queries
int rating_choose_rows(const RatingArgs& args, void* stream);
int rating_choose_supers(const RatingArgs& args, void* stream);
int rating_finish(const RatingArgs& args, void* stream);

}  // namespace ei::kernels::cuda
