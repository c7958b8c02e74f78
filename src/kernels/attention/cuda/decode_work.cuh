// How a decoding step is cut into work. A line is 16 rows (token-major: one head of one token each) of one kv_head; its
// keys are cut into tiles. All tiles of all lines, one behind the other, are shared out evenly among the CTAs, whatever
// the lengths; who finishes the last part of a line puts its parts together.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/prefill_work.cuh"

namespace ei::kernels::cuda {

inline constexpr int kLineRows = 16;

struct DecodeArgs {
  const void* q;
  void* out;
  float* log_sum;
  const DeviceKvHead* heads;
  float* parts;       // [ctas + lines][16][head_dim + 2]: sums of weighted values, then base and sum of weights
  uint32_t* arrived;  // [lines], zero between two launches
  int64_t q_stride;
  int64_t out_stride;
  int32_t tokens;
  int32_t kv_heads;
  int32_t group;
  int32_t window;
  int32_t page_blocks;
  int32_t lines_per_head;
  float scale;
  float softcap;
  DType q_type;
  DType out_type;
};

// A line: rows [row, row + 16) of kv_head, reading tiles [first_tile, first_tile + num_tiles) of its keys.
struct DecodeLine {
  int32_t kv_head;
  int32_t row;
  int32_t first_tile;
  int32_t num_tiles;
};

// The first slot that a token (counted in the call) sees, and the slot behind the last one.
__device__ inline int32_t seen_end(const DecodeArgs& args, const DeviceKvHead& head, int32_t token) {
  const int32_t end = head.length - args.tokens + token + 1;
  return end < 0 ? 0 : end;
}
__device__ inline int32_t seen_begin(const DecodeArgs& args, const DeviceKvHead& head, int32_t token) {
  const int32_t end = seen_end(args, head, token);
  if (args.window <= 0 || end == 0) return 0;
  return first_slot_from(head, position_of(head, end - 1) - args.window + 1);
}

template <int kTileKeys>
__device__ inline DecodeLine find_line(const DecodeArgs& args, int32_t number) {
  DecodeLine line;
  line.kv_head = number / args.lines_per_head;
  line.row = number % args.lines_per_head * kLineRows;
  const DeviceKvHead head = args.heads[line.kv_head];
  const int32_t rows = args.tokens * args.group;
  const int32_t last_row = line.row + kLineRows < rows ? line.row + kLineRows - 1 : rows - 1;
  const int32_t begin = seen_begin(args, head, line.row / args.group);
  const int32_t end = seen_end(args, head, last_row / args.group);
  line.first_tile = begin / kTileKeys;
  line.num_tiles = (end + kTileKeys - 1) / kTileKeys - line.first_tile;
  if (line.num_tiles < 1) line.num_tiles = 1;  // somebody must write the zeros of rows that see nothing
  return line;
}

// CTA `cta` of `ctas` has tiles [share(cta), share(cta + 1)) of `total`; owner() is the inverse.
__device__ inline int32_t share_begin(int32_t total, int32_t cta, int32_t ctas) {
  return static_cast<int32_t>(int64_t{total} * cta / ctas);
}
__device__ inline int32_t share_owner(int32_t total, int32_t tile, int32_t ctas) {
  return static_cast<int32_t>(((int64_t{tile} + 1) * ctas - 1) / total);
}

}  // namespace ei::kernels::cuda
