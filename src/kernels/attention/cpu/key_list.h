// The keys that a tile of query rows reads, as one list in ascending slot order, and the part of it each row sees.
// Compiled once with plain flags; the ISA variants call it a few times per tile.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"

namespace ei::kernels {

// Entry i is slot i, or with a plan: first the slots of the segment's blocks, then all slots from own_begin on.
// Positions ascend along the list, so what a row sees of it is always one interval.
struct KeyList {
  const KvHeadView* head = nullptr;
  const int32_t* blocks = nullptr;  // ascending block indices
  int32_t block = 1;                // slots per block
  int64_t block_keys = 0;           // slots in all blocks together
  int64_t own_begin = 0;
};

// The list of kv_head for rows in the segment of `token` (without a plan: for any row).
KeyList make_key_list(const AttentionParams& params, int64_t kv_head, int64_t token);

// The entries [begin, end) that the row of `token` sees.
Range visible_keys(const AttentionParams& params, const KeyList& list, int64_t token);

// Where the K and V rows of entries [begin, begin + count) lie.
void gather_rows(const KvView& kv, const KeyList& list, int64_t begin, int64_t count, const void** key_rows,
                 const void** value_rows);

// Query rows are cut into tiles of at most `tile_tokens` tokens; with a plan no tile straddles two segments.
class QueryTiles {
 public:
  QueryTiles(const AttentionParams& params, int64_t tile_tokens);
  int64_t count() const { return count_; }
  Range tokens(int64_t tile) const;  // heaviest first: tile 0 holds the last rows

 private:
  int64_t first_;  // position of the first row, counted from where segments are anchored
  int64_t end_;
  int64_t segment_;
  int64_t tile_tokens_;
  int64_t tiles_per_segment_;
  int64_t last_tile_;
  int64_t count_;
};

}  // namespace ei::kernels
