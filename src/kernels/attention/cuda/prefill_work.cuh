// How a prefill is cut into work: an item is some rows (128, mostly) of one kv_head (a row is one head of one token,
// token-major) and the 8-key blocks they read: first the list of a plan, then consecutive slots up to the last row's
// own.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/attention/cuda/kv_layout.h"

namespace ei::kernels::cuda {

// PrefillParams as a kernel takes them, by value.
struct PrefillArgs {
  const void* q;
  void* out;
  float* log_sum;
  const DeviceKvHead* heads;
  const int64_t* offsets;  // null: dense
  const int32_t* blocks;
  const uint8_t* dense;
  const int32_t* order;
  uint32_t* next_item;  // the work counter, zero at the beginning
  int64_t q_stride;
  int64_t out_stride;
  int32_t tokens;
  int32_t kv_heads;
  int32_t group;
  int32_t first_position;
  int32_t window;
  int32_t page_blocks;  // 8-key blocks a page
  int32_t segment;
  int32_t block_parts;  // 8-key blocks a block of the plan
  int32_t first_segment;
  int32_t num_segments;
  int32_t item_rows;
  int32_t tiles;  // of item_rows rows, for every list (sparse) or kv_head (dense)
  int32_t items;
  float scale;    // of q.k, times log2(e); with a softcap: divided by it, times 2 log2(e)
  float softcap;  // times log2(e)
  DType q_type;
  DType out_type;
};

struct PrefillItem {
  int32_t kv_head;      // -1: no more work
  int32_t first_token;  // of the rows' range, counted in the chunk
  int32_t row;          // first row of the item, counted in the range
  int32_t rows;         // of the range
  int32_t key_tiles;
};

// Which keys an item reads. Slots from `masked_from` on are not seen by all rows, nor are those before `window_from`.
struct PrefillKeys {
  int64_t list;         // first entry of the list
  int32_t list_blocks;  // in 8-key blocks
  int32_t own_first;    // first 8-key block of the consecutive slots
  int32_t num_blocks;   // of both
  int32_t masked_from;
  int32_t window_from;
};

__device__ inline int32_t first_slot_from(const DeviceKvHead& head, int32_t position) {
  if (position > head.tail_position || head.listed == 0) {
    const int32_t slot = head.listed + position - head.tail_position;
    return slot < 0 ? 0 : slot > head.length ? head.length : slot;
  }
  int32_t low = 0;
  int32_t high = head.listed;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (head.listed_positions[middle] < position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ inline int32_t position_of(const DeviceKvHead& head, int32_t slot) {
  return slot < head.listed ? head.listed_positions[slot] : head.tail_position + slot - head.listed;
}

// The item of a number; false when it has no rows. `own_begin` is the first slot that is read without a list.
__device__ inline bool find_item(const PrefillArgs& args, int32_t number, PrefillItem& item, int32_t& list,
                                 int32_t& own_begin) {
  const int32_t outer = number / args.tiles;
  item.row = (args.tiles - 1 - number % args.tiles) * args.item_rows;  // the longest first
  own_begin = 0;
  list = -1;
  if (args.offsets == nullptr) {
    item.kv_head = outer;
    item.first_token = 0;
    item.rows = args.tokens * args.group;
    return true;
  }
  const int32_t in_head = outer % args.num_segments;
  list = args.order != nullptr ? args.order[outer] : outer - in_head + args.num_segments - 1 - in_head;
  item.kv_head = list / args.num_segments;
  const int32_t segment = list % args.num_segments;
  const int32_t begin = (args.first_segment + segment) * args.segment - args.first_position;
  const int32_t end = begin + args.segment;
  item.first_token = begin > 0 ? begin : 0;
  item.rows = ((end < args.tokens ? end : args.tokens) - item.first_token) * args.group;
  if (args.dense != nullptr && args.dense[segment] != 0) {
    list = -1;
  } else {
    own_begin = begin + args.first_position;
  }
  return item.row < item.rows;
}

__device__ inline PrefillKeys find_keys(const PrefillArgs& args, const PrefillItem& item, int32_t list,
                                        int32_t own_begin) {
  const DeviceKvHead head = args.heads[item.kv_head];
  const int32_t last_row = item.row + args.item_rows < item.rows ? item.row + args.item_rows - 1 : item.rows - 1;
  const int32_t begin = args.first_position + item.first_token;
  const int32_t first = begin + item.row / args.group;
  const int32_t last = begin + last_row / args.group;
  PrefillKeys keys;
  keys.list = list < 0 ? 0 : args.offsets[list];
  keys.list_blocks = list < 0 ? 0 : static_cast<int32_t>(args.offsets[list + 1] - keys.list) * args.block_parts;
  keys.masked_from = first_slot_from(head, first + 1);
  keys.window_from = 0;
  if (args.window > 0) {
    keys.window_from = first_slot_from(head, last - args.window + 1);
    const int32_t seen = first_slot_from(head, first - args.window + 1);
    if (seen > own_begin) own_begin = seen;
  }
  keys.own_first = own_begin / kBlockKeys;
  const int32_t own_end = (first_slot_from(head, last + 1) + kBlockKeys - 1) / kBlockKeys;
  keys.num_blocks = keys.list_blocks + (own_end > keys.own_first ? own_end - keys.own_first : 0);
  return keys;
}

// The index of the item's 8-key block `number` among the head's blocks.
__device__ inline int32_t find_block(const PrefillArgs& args, const PrefillKeys& keys, int32_t number) {
  if (number >= keys.list_blocks) return keys.own_first + number - keys.list_blocks;
  const int32_t entry = number / args.block_parts;
  return args.blocks[keys.list + entry] * args.block_parts + (number - entry * args.block_parts);
}

}  // namespace ei::kernels::cuda
